"""An S3-speaking server on loopback without uploads, over a dict of objects, with the quirks that real stores have."""

import hashlib
import json
import random
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.s3 import CREDENTIALS

MODIFIED = "Wed, 25 Nov 2026 00:00:00 GMT"


class Request(NamedTuple):
    """What a client sent; ``key`` is empty for a request about the bucket, names of headers are in lower case."""

    method: str
    key: str
    query: Mapping[str, str]
    headers: Mapping[str, str]

    @property
    def access_key(self) -> str:
        signed = re.search(r"Credential=([^/]+)/", self.headers.get("authorization", ""))
        return signed[1] if signed else ""

    @property
    def is_of_obstore(self) -> bool:
        return self.headers["user-agent"].startswith("object_store/")


class Refusal(NamedTuple):
    """An error answer; that for an archived object names its storage class."""

    status: int
    code: str
    message: str
    storage_class: str = ""

    @property
    def body(self) -> bytes:
        storage = f"<StorageClass>{self.storage_class}</StorageClass>" if self.storage_class else ""
        return f"<Error><Code>{self.code}</Code><Message>{self.message}</Message>{storage}</Error>".encode()


Refuses = Callable[[Request], Refusal | None]
Changes = Callable[[Request], Mapping[str, Any]]


@dataclass(slots=True)
class OddS3:
    """The server, which runs while it is a context.

    ``refuses`` returns the error for a request, or None. ``changes`` returns the quirks that the answer to this request alone has, by the
    names of the fields here. ``body`` is all of it, ``broken`` (the connection ends in its middle), or ``half``, which its headers claim
    to be all. ``tokens`` name the next page, or are always the ``same`` one, with the first
    page, or there are ``none``. ``has_raw_characters``: control characters of keys are sent as they are, which is not XML.
    ``archives`` has headers of some objects; listings show their ``x-amz-storage-class``, and no other one.
    """

    objects: dict[str, bytes] = field(repr=False)
    metadata: dict[str, dict[str, str]] = field(repr=False)
    refuses: Refuses = lambda request: None
    changes: Changes = lambda request: {}
    body: Literal["whole", "broken", "half"] = "whole"
    tokens: Literal["own", "same", "none"] = "own"
    obeys_start_after: bool = True
    lists_twice: bool = False
    is_shuffled: bool = False
    has_raw_characters: bool = False
    has_etags: bool = True
    has_if_match: bool = True
    archives: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    page_size: int = 7
    seen: list[Request] = field(default_factory=list, repr=False)
    _server: Any = None
    _lock: Any = field(default_factory=threading.Lock)

    @classmethod
    def of_golden(cls, golden: Path, **quirks: Any) -> Self:
        """Return a server of the golden bucket, with the user metadata that brokers wrote."""
        described = json.loads((golden / "objects.json").read_text())
        objects = {key: (golden / "bucket" / key).read_bytes() for key in described}
        return cls(objects, {key: one["metadata"] for key, one in described.items()}, **quirks)

    def __enter__(self) -> Self:
        handler = type("OddHandler", (_Handler,), {"odd": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        # Clients close connections whose answers are broken.
        self._server.handle_error = lambda request, address: None
        threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def options(self) -> dict[str, Any]:
        return {**CREDENTIALS, "endpoint_url": self.endpoint}

    @property
    def listings(self) -> int:
        return sum("list-type" in request.query for request in self.seen)

    def of_request(self, request: Request) -> tuple[Self, Refusal | None]:
        """Note a request, and return this server with the quirks for it, and its refusal."""
        with self._lock:
            self.seen.append(request)
            changed = replace(self, **self.changes(request))
            return changed, changed.refuses(request)

    def page(self, query: Mapping[str, str]) -> str:
        """Return a page of ``ListObjectsV2``."""
        names = self._names(query.get("prefix", ""), query.get("delimiter", ""))
        start, after = 0, query.get("start-after", "")
        if after and self.obeys_start_after:
            start = next((place for place, name in enumerate(names) if name > after), len(names))
        if self.tokens == "own":
            start = int(query.get("continuation-token", start))
        end = start + self.page_size
        more = end < len(names)
        token = {"own": str(end), "same": "0", "none": ""}[self.tokens]
        tag = f"<NextContinuationToken>{token}</NextContinuationToken>" if more and token else ""
        rows = [self._row(name) for name in names[start:end] for _ in range(1 + self.lists_twice)]
        encoding = "" if self.has_raw_characters else "<EncodingType>url</EncodingType>"
        head = f"<Prefix/><IsTruncated>{str(more).lower()}</IsTruncated>{encoding}{tag}"
        return f"<ListBucketResult>{head}{''.join(rows)}</ListBucketResult>"

    def _names(self, prefix: str, delimiter: str) -> list[str]:
        """Return keys and folders in the order of the listing."""
        rests = [key.removeprefix(prefix) for key in sorted(self.objects) if key.startswith(prefix)]
        folded = [
            rest.partition(delimiter)[0] + delimiter if delimiter and delimiter in rest else rest for rest in rests
        ]
        names = list(dict.fromkeys(prefix + rest for rest in folded))
        return random.Random(1).sample(names, len(names)) if self.is_shuffled else names

    def _row(self, name: str) -> str:
        data = self.objects.get(name)
        if data is None:
            return f"<CommonPrefixes><Prefix>{self._sent(name)}</Prefix></CommonPrefixes>"
        etag = f"<ETag>{escape(etag_of(data))}</ETag>" if self.has_etags else ""
        size = f"<LastModified>2026-11-25T00:00:00.000Z</LastModified>{etag}<Size>{len(data)}</Size>"
        shown = self.archives.get(name, {}).get("x-amz-storage-class", "STANDARD")
        return f"<Contents><Key>{self._sent(name)}</Key>{size}<StorageClass>{shown}</StorageClass></Contents>"

    def _sent(self, name: str) -> str:
        return escape(name) if self.has_raw_characters else quote(name, safe="/~")


def etag_of(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


class _Handler(BaseHTTPRequestHandler):
    odd: OddS3
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        key = unquote(url.path).removeprefix("/").partition("/")[2]
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        odd, refusal = self.odd.of_request(Request(self.command, key, query, headers))
        data = odd.objects.get(key)
        if refusal is None and self.command == "DELETE":
            odd.objects.pop(key, None)
            self._answer(204, b"")
            return
        if refusal is None and key and data is None:
            refusal = Refusal(404, "NoSuchKey", "The specified key does not exist.")
        if refusal is None and "if-match" in headers and not odd.has_if_match:
            refusal = Refusal(501, "NotImplemented", "A header is not implemented.")
        if refusal is not None:
            self._answer(refusal.status, refusal.body)
        elif data is not None:
            self._object(odd, key, data, headers.get("range", ""))
        elif "uploads" in query:
            uploads = b"<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>"
            self._answer(200, uploads, body=odd.body)
        else:
            self._answer(200, odd.page(query).encode(), body=odd.body)

    do_HEAD = do_DELETE = do_GET  # noqa: N815  (http.server's)

    def _object(self, odd: OddS3, key: str, data: bytes, range_asked: str) -> None:
        headers = {f"x-amz-meta-{name}": value for name, value in odd.metadata.get(key, {}).items()}
        headers |= odd.archives.get(key, {})
        headers |= {"Last-Modified": MODIFIED, **({"ETag": etag_of(data)} if odd.has_etags else {})}
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", range_asked)
        if asked is None:
            self._answer(200, data, headers, body=odd.body)
            return
        start, end = int(asked[1]), min(int(asked[2]) + 1, len(data))
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        self._answer(206, data[start:end], headers, body=odd.body)

    def _answer(
        self, status: int, data: bytes, headers: Mapping[str, str] | None = None, *, body: str = "whole"
    ) -> None:
        sent = data if body == "whole" else data[: len(data) // 2]
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/xml",
            "Content-Length": str(len(sent if body == "half" and self.command != "HEAD" else data)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(sent)
            self.close_connection |= body == "broken"

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Log nothing."""
