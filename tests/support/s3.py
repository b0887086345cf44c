"""A real S3-speaking server on loopback, and a proxy in front of it that fails on demand."""

import http.client
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

CREDENTIALS = {"key": "test-access-key-id", "secret": "test-secret-not-to-be-shown"}


class S3Server:
    """moto's server in a thread of this process, and a client to fill it with."""

    def __init__(self) -> None:
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.address = (host, port)
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

    def make_golden_bucket(self, name: str, golden: Path) -> None:
        described = json.loads((golden / "objects.json").read_text())
        objects = {key: (golden / "bucket" / key).read_bytes() for key in described}
        self.make_bucket(name, objects, {key: one["metadata"] for key, one in described.items()})

    def stop(self) -> None:
        self._server.stop()


@dataclass(slots=True)
class Fault:
    """What the proxy does to the next ``times`` requests that ``matches`` (method, path, headers)."""

    kind: str
    times: int = 1_000_000
    matches: Callable[[str, str, Any], bool] = lambda method, path, headers: method == "GET" and "range" in headers


@dataclass(slots=True)
class Seen:
    """One request that passed the proxy."""

    method: str
    path: str
    range: str | None


@dataclass(slots=True)
class FaultProxy:
    """An HTTP proxy before an S3 server that fails by request.

    Kinds: ``short`` (half a body, then close), ``cut`` (half a body, honestly announced), ``reset``, ``slow``, ``unranged`` (the whole
    object instead of a range), or a status code.
    """

    target: tuple[str, int]
    faults: list[Fault] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    _server: Any = None
    _lock: Any = field(default_factory=threading.Lock)

    def start(self) -> "FaultProxy":
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                proxy.answer(self)

            def do_HEAD(self) -> None:
                proxy.answer(self)

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
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
        self._server.shutdown()
        self._server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        fault = self._take(handler)
        self.seen.append(Seen(handler.command, handler.path, handler.headers.get("range")))
        if fault == "reset":
            handler.connection.close()
            handler.close_connection = True
            return
        if fault.isdigit():
            code = {"500": "InternalError", "503": "SlowDown", "404": "NoSuchKey", "403": "AccessDenied"}[fault]
            body = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
            self._send(handler, int(fault), {"Content-Type": "application/xml"}, body, len(body))
            return
        if fault == "slow":
            time.sleep(0.3)
        status, headers, body = self._forward(handler, unranged=fault == "unranged")
        claimed = len(body)
        if fault in {"short", "cut"}:
            body = body[: len(body) // 2]
        self._send(handler, status, headers, body, len(body) if fault == "cut" else claimed)

    def _take(self, handler: BaseHTTPRequestHandler) -> str:
        with self._lock:
            for fault in self.faults:
                if fault.times > 0 and fault.matches(handler.command, handler.path, handler.headers):
                    fault.times -= 1
                    return fault.kind
        return ""

    def _forward(self, handler: BaseHTTPRequestHandler, *, unranged: bool) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(*self.target)
        headers = {name: value for name, value in handler.headers.items() if not (unranged and name.lower() == "range")}
        connection.request(handler.command, handler.path, headers=headers)
        response = connection.getresponse()
        body = response.read()
        kept = {
            name: value
            for name, value in response.getheaders()
            if name.lower() not in {"content-length", "transfer-encoding"}
        }
        if handler.command == "HEAD":
            kept["Content-Length"] = response.getheader("content-length", "0")
        connection.close()
        return response.status, kept, body

    def _send(
        self, handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes, claimed: int
    ) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        if "Content-Length" not in headers:
            handler.send_header("Content-Length", str(claimed))
        if len(body) != claimed:
            handler.close_connection = True
        handler.end_headers()
        handler.wfile.write(body)
