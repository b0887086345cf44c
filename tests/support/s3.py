"""A real S3-speaking server on loopback, and a proxy in front of it that fails on demand."""

import base64
import http.client
import itertools
import json
import re
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

CREDENTIALS = {"key": "test-access-key-id", "secret": "test-secret-not-to-be-shown"}
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": CREDENTIALS["key"], "AWS_SECRET_ACCESS_KEY": CREDENTIALS["secret"]}


def environment_of(store: "S3Server | FaultProxy") -> dict[str, str]:
    """Return with what a command finds the store by itself, and may read it."""
    return {**ENVIRONMENT, "AWS_ENDPOINT_URL": store.endpoint, "AWS_DEFAULT_REGION": "us-east-1"}


class S3Server:
    """moto's server in a thread of this process, and a client to fill it with."""

    def __init__(self) -> None:
        # moto's own server looks, for each request, for its service among all of Amazon's, which takes longer than what S3 does.
        app = create_backend_app("s3")
        self._server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.address = ("127.0.0.1", self._server.server_port)
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=CREDENTIALS["key"],
            aws_secret_access_key=CREDENTIALS["secret"],
            region_name="us-east-1",
        )

    @property
    def endpoint(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}"

    @property
    def options(self) -> dict[str, Any]:
        return {**CREDENTIALS, "endpoint_url": self.endpoint}

    def make_bucket(
        self, name: str, objects: dict[str, bytes], metadata: dict[str, dict[str, str]] | None = None
    ) -> None:
        self.client.create_bucket(Bucket=name)
        for key, data in objects.items():
            self.client.put_object(Bucket=name, Key=key, Body=data, Metadata=(metadata or {}).get(key, {}))

    def make_golden_bucket(self, name: str, golden: Path, topics: str = ".*") -> None:
        """Put the golden bucket, or those of its topics whose whole names (``tenant/namespace/persistent/topic``) match."""
        described = json.loads((golden / "objects.json").read_text())
        metadata = {key: one["metadata"] for key, one in described.items()}
        wanted = [key for key in metadata if re.fullmatch(topics, metadata[key]["managedledgername"])]
        self.make_bucket(name, {key: (golden / "bucket" / key).read_bytes() for key in wanted}, metadata)

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@dataclass(slots=True)
class Fault:
    """What the proxy does to ``times`` requests that ``matches`` (method, path, headers).

    The first ``after`` of them pass, and then each ``every``-th one is meant. ``action`` is done before the request is passed on, such as
    replacing the object; with the kind ``""`` it is passed on as it is.
    """

    kind: str
    times: int = 1_000_000
    matches: Callable[[str, str, Any], bool] = lambda method, path, headers: method == "GET" and "range" in headers
    after: int = 0
    every: int = 1
    action: Callable[[], object] | None = None
    met: int = 0

    def meets(self, handler: BaseHTTPRequestHandler) -> bool:
        """Count a request, and tell whether this one is meant."""
        if self.times <= 0 or not self.matches(handler.command, handler.path, handler.headers):
            return False
        self.met += 1
        if self.met <= self.after or (self.met - self.after - 1) % self.every:
            return False
        self.times -= 1
        return True


@dataclass(slots=True)
class Seen:
    """One request that passed the proxy."""

    method: str
    path: str
    range: str | None


@dataclass(slots=True)
class FaultProxy:
    """An HTTP proxy before an S3 server that fails by request.

    Kinds of no answer: ``reset``, ``slow``, ``hang`` (accepts and never answers), ``stall`` (half a body, then nothing, the connection
    open), or a status code. Kinds of wrong bodies: ``short`` (half of it, then close), ``cut`` (half of it, honestly announced),
    ``longer`` (announced so), ``endless`` (longer, without its length), ``unranged`` (the whole object instead of a range),
    ``shifted`` (as many bytes from elsewhere, honestly announced), ``replaced`` (another object's bytes, with its ETag), ``flip`` (one
    bit is another, which only a checksum tells), ``damaged`` (the same with the checksum of the right body, as a store that kept
    it has), ``wavering`` (the same, but for another bit each time).

    Of requests that write: a kind with ``done-`` before it is passed on, and only its answer is lost, or another one. ``half``: the
    connection breaks in the middle of the request's body; ``halved``: the server gets half of it, honestly announced. ``200-error``: an
    error with the status 200, as S3 answers a completion it has begun. ``late``: the client gets no answer and gives up, and then the
    request is done. ``resized``: the answer to a HEAD claims a byte less.

    With ``is_conditional``, ``If-None-Match: *`` is obeyed also where moto does not: when an upload is completed.
    """

    target: tuple[str, int]
    faults: list[Fault] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    flips: list[tuple[str, int]] = field(default_factory=list)
    """Path and offset in the object of each byte that was flipped."""
    is_conditional: bool = False
    replay: dict[Any, tuple[int, dict[str, str], bytes]] | None = None
    """Answers of the server, given again for the same request, where that is wanted: the server takes longer than all the rest."""
    _server: Any = None
    _busy: int = 0
    _lock: Any = field(default_factory=threading.Lock)
    _completing: Any = field(default_factory=threading.Lock)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def start(self) -> "FaultProxy":
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                proxy.answer(self)

            def do_HEAD(self) -> None:
                proxy.answer(self)

            def do_PUT(self) -> None:
                proxy.answer(self)

            def do_POST(self) -> None:
                proxy.answer(self)

            def do_DELETE(self) -> None:
                proxy.answer(self)

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        # A client that is killed is no news.
        self._server.handle_error = lambda request, address: None
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    @property
    def endpoint(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host}:{port}"

    @property
    def options(self) -> dict[str, Any]:
        return {**CREDENTIALS, "endpoint_url": self.endpoint}

    def stop(self) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def is_busy(self) -> bool:
        """Whether a request is under way, be it that nobody waits for it any more."""
        return self._busy > 0

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        with self._lock:
            self._busy += 1
        try:
            self._answer(handler)
        finally:
            with self._lock:
                self._busy -= 1

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        fault = self._take(handler)
        self.seen.append(Seen(handler.command, handler.path, handler.headers.get("range")))
        length = int(handler.headers.get("content-length", 0))
        if fault == "half":
            handler.rfile.read(length // 2)
        # An answer while the client still sends would be a reset to it.
        sent = b"" if fault in {"half", "reset"} else handler.rfile.read(length)
        if fault == "halved":
            sent = sent[: length // 2]
        if fault in {"hang", "late"}:
            self._wait_for_leaving(handler)
        if fault.startswith("done-") or fault == "late":
            self._forward(handler, sent)
            fault = fault.removeprefix("done-")
        # A connection that was kept open outlives the server.
        if fault in {"reset", "hang", "half", "late"} or self._stopped.is_set():
            _reset(handler)
            return
        if fault.isdigit() or fault == "200-error":
            status = int(fault.removesuffix("-error"))
            code = "InternalError" if status == 200 else _CODES.get(fault, fault)
            body = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
            self._send(handler, status, {"Content-Type": "application/xml"}, body, len(body))
            return
        if fault == "slow":
            time.sleep(0.3)
        if fault == "shifted":
            _shift_range(handler)
        status, headers, body = self._forward(handler, sent, unranged=fault == "unranged")
        claimed = len(body)
        if fault == "resized":
            headers["Content-Length"] = str(int(headers["Content-Length"]) - 1)
        if fault in _SPOILT:
            if fault == "flip" and body:
                first = int(headers.get("Content-Range", "bytes 0-").removeprefix("bytes ").partition("-")[0])
                self.flips.append((handler.path, first + len(body) // 2))
            headers, body = _SPOILT[fault](headers, body)
        self._send(handler, status, headers, body, claimed if fault in {"short", "stall"} else len(body))
        if fault == "stall":
            self._wait_for_leaving(handler)

    def _wait_for_leaving(self, handler: BaseHTTPRequestHandler) -> None:
        """Wait until the client has closed the connection."""
        handler.connection.settimeout(0.1)
        while not self._stopped.is_set():
            try:
                if not handler.connection.recv(1):
                    return
            except TimeoutError:
                continue
            except OSError:
                return

    def _take(self, handler: BaseHTTPRequestHandler) -> str:
        with self._lock:
            met = next((fault for fault in self.faults if fault.meets(handler)), None)
        if met is None:
            return ""
        if met.action is not None:
            met.action()
        return met.kind

    def _forward(
        self, handler: BaseHTTPRequestHandler, sent: bytes = b"", *, unranged: bool = False
    ) -> tuple[int, dict[str, str], bytes]:
        is_completion = handler.command == "POST" and "uploadId=" in handler.path
        if not (self.is_conditional and is_completion and handler.headers.get("if-none-match") == "*"):
            return self._pass_on(handler, sent, unranged=unranged)
        with self._completing:
            connection = http.client.HTTPConnection(*self.target)
            # moto knows nobody, so nobody signs.
            connection.request("HEAD", handler.path.partition("?")[0])
            is_there = connection.getresponse().status == 200
            connection.close()
            if is_there:
                body = b"<Error><Code>PreconditionFailed</Code><Message>If-None-Match</Message></Error>"
                return 412, {"Content-Type": "application/xml"}, body
            return self._pass_on(handler, sent, unranged=unranged)

    def _pass_on(
        self, handler: BaseHTTPRequestHandler, sent: bytes, *, unranged: bool
    ) -> tuple[int, dict[str, str], bytes]:
        asked = (handler.command, handler.path, unranged, handler.headers.get("range"), handler.headers.get("if-match"))
        replay = self.replay if handler.command in {"GET", "HEAD"} else None
        if replay is not None and asked in replay:
            return replay[asked]
        connection = http.client.HTTPConnection(*self.target)
        dropped = {"range"} if unranged else set()
        if handler.command in {"PUT", "POST", "DELETE"}:
            dropped |= {"content-length", "expect", "connection"}
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in dropped}
        connection.request(handler.command, handler.path, body=sent or None, headers=headers)
        response = connection.getresponse()
        body = response.read()
        kept = {
            name: value
            for name, value in response.getheaders()
            if name.lower() not in {"content-length", "transfer-encoding", "connection"}
        }
        if handler.command == "HEAD":
            kept["Content-Length"] = response.getheader("content-length", "0")
        connection.close()
        if replay is not None:
            replay[asked] = response.status, kept, body
        return response.status, kept, body

    def _send(
        self, handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes, claimed: int
    ) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        if not {"Content-Length", "Connection"} & set(headers):
            handler.send_header("Content-Length", str(claimed))
        if len(body) != claimed or "Connection" in headers:
            handler.close_connection = True
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)


_CODES = {
    "400": "InvalidArgument",
    "403": "AccessDenied",
    "404": "NoSuchKey",
    "409": "ConditionalRequestConflict",
    "412": "PreconditionFailed",
    "429": "TooManyRequests",
    "500": "InternalError",
    "501": "NotImplemented",
    "503": "SlowDown",
}

Headers = dict[str, str]


def _reset(handler: BaseHTTPRequestHandler) -> None:
    if handler.command in {"PUT", "POST", "DELETE"}:
        # What is still unread, or comes yet, would keep the connection half open.
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def _shift_range(handler: BaseHTTPRequestHandler) -> None:
    start, end = handler.headers["range"].removeprefix("bytes=").split("-")
    handler.headers.replace_header("range", f"bytes={int(start) - 1}-{int(end) - 1}")


def _half(headers: Headers, body: bytes) -> tuple[Headers, bytes]:
    return headers, body[: len(body) // 2]


def _longer(headers: Headers, body: bytes) -> tuple[Headers, bytes]:
    return headers, body + body[:100]


def _endless(headers: Headers, body: bytes) -> tuple[Headers, bytes]:
    return {**headers, "Connection": "close"}, body + body[:100]


def _replaced(headers: Headers, body: bytes) -> tuple[Headers, bytes]:
    return {**headers, "ETag": '"00000000000000000000000000000000"'}, bytes(byte ^ 0x5A for byte in body)


def _flipped(headers: Headers, body: bytes) -> tuple[Headers, bytes]:
    # A store that sends checksums of its own is read by clients that compare them.
    headers = {name: value for name, value in headers.items() if not name.lower().startswith("x-amz-checksum")}
    middle = len(body) // 2
    return headers, body[:middle] + bytes([byte ^ 1 for byte in body[middle : middle + 1]]) + body[middle + 1 :]


def _damaged(headers: Headers, body: bytes, at: int = 0) -> tuple[Headers, bytes]:
    checksum = base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
    headers, _ = _flipped(headers, body)
    at %= max(1, len(body))
    wrong = body[:at] + bytes([byte ^ 1 for byte in body[at : at + 1]]) + body[at + 1 :]
    return {**headers, "x-amz-checksum-crc32": checksum}, wrong


_numbers = itertools.count(1)


def _wavering(headers: Headers, body: bytes) -> tuple[Headers, bytes]:
    return _damaged(headers, body, next(_numbers))


_SPOILT: dict[str, Callable[[Headers, bytes], tuple[Headers, bytes]]] = {
    "short": _half,
    "cut": _half,
    "stall": _half,
    "longer": _longer,
    "endless": _endless,
    "replaced": _replaced,
    "flip": _flipped,
    "damaged": _damaged,
    "wavering": _wavering,
}
