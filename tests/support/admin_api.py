"""A broker's admin API on loopback: real HTTP, the golden answers, and faults."""

import ipaddress
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Answers = dict[str, tuple[int, str]]
NO_SCHEMA = '{"reason":"Schema not found"}'


def golden_answers(golden_typed: Path, when: str = "responses") -> Answers:
    """Return what the broker answered, by path, as it was then: ``responses``, or ``before the deletion …`` where a topic has that."""
    found: Answers = {}
    for file in (golden_typed / "schemas").glob("public*.json"):
        reported = json.loads(file.read_text())
        moment = next((name for name in reported if name.startswith(when)), "responses")
        for request, answer in reported[moment].items():
            # Those whose name was encoded once answer for another topic.
            if "(encoded once)" not in request:
                found[f"/admin/v2/{request.removeprefix('GET ')}"] = (answer["status"], answer["body"])
    return found


def schema_json(version: int, data: str, timestamp: int, kind: str = "AVRO", **properties: str) -> dict[str, Any]:
    return {"version": version, "type": kind, "timestamp": timestamp, "data": data, "properties": properties}


def answers_of(topic: str, schemas: list[dict[str, Any]], hidden: int = 0) -> Answers:
    """Return the answers for one topic, ``public/default/x``; ``hidden`` versions were deleted, or are a deletion."""
    path = f"/admin/v2/schemas/{topic}"
    index = [
        {"ledgerId": n, "entryId": 0, "version": n} for n in [*range(hidden), *(one["version"] for one in schemas)]
    ]
    found = {f"{path}/schema/{one['version']}": (200, json.dumps(one)) for one in schemas}
    found[f"{path}/schemas"] = (200, json.dumps({"getSchemaResponses": schemas}))
    found[f"{path}/metadata"] = (200, json.dumps({"info": index[-1], "index": index}) if index else "")
    return found


@dataclass
class AdminServer:
    """The server; ``answers`` may be changed while it runs.

    Attributes
    ----------
    does
        What it does for requests that change something: is called with method, path and the value of the body.
    tells
        What it answers to a GET whose path is not among the answers; None for what Pulsar says of a topic that it does not know.
    token
        That it wants; None for none.
    faults
        What it does instead of answering, one after the other.
    seen
        Paths and headers of the requests.
    asked
        Methods, paths and values of the requests that change something.

    """

    answers: Answers
    does: Callable[[str, str, Any], tuple[int, str]] | None = None
    reports: Callable[[str], tuple[int, str]] | None = None
    token: str | None = None
    faults: list[Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=list)
    seen: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    url: str = ""


@contextmanager
def serving(answers: Answers, tls: ssl.SSLContext | None = None, **options: Any) -> Iterator[AdminServer]:
    """Serve answers until the end of a block."""
    admin = AdminServer(answers, **options)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(admin))
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    admin.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield admin
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(admin: AdminServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            admin.seen.append((self.path, dict(self.headers)))
            if not self._is_refused():
                unknown = _unknown if admin.reports is None else admin.reports
                send(self, *(admin.answers.get(self.path) or unknown(self.path)))

        def do_PUT(self) -> None:
            self._do()

        def do_POST(self) -> None:
            self._do()

        def do_DELETE(self) -> None:
            self._do()

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            value = json.loads(body) if body else None
            admin.seen.append((self.path, dict(self.headers)))
            admin.asked.append((self.command, self.path, value))
            if not self._is_refused():
                send(self, *((405, "") if admin.does is None else admin.does(self.command, self.path, value)))

        def _is_refused(self) -> bool:
            if admin.faults:
                admin.faults.pop(0)(self)
                return True
            if admin.token is not None and self.headers.get("Authorization") != f"Bearer {admin.token}":
                send(self, 401, '{"reason":"Unable to authenticate"}')
                return True
            return False

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:  # of a client that does not trust us
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    return Handler


def _unknown(path: str) -> tuple[int, str]:
    """Return what Pulsar says of a topic that it does not know: nothing is wrong."""
    if path.endswith("/schemas"):
        return 200, '{"getSchemaResponses":[]}'
    return (200, "") if path.endswith("/metadata") else (404, NO_SCHEMA)


def send(handler: BaseHTTPRequestHandler, status: int, body: str, claimed: int | None = None, **headers: str) -> None:
    data = body.encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(data) if claimed is None else claimed))
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


@dataclass(frozen=True)
class Certificates:
    """Files in PEM: an authority, a server that it signed, and a client."""

    ca: Path
    server: Path
    client: Path

    def server_context(self, *, asks_for_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server)
        if asks_for_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.ca)
        return context


def make_certificates(folder: Path) -> Certificates:
    """Make an authority of our own, and certificates with their keys."""
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = _certificate("authority", ca_key, "authority", ca_key, is_ca=True)
    made = Certificates(folder / "ca.pem", folder / "server.pem", folder / "client.pem")
    made.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    for name, file in (("broker", made.server), ("client", made.client)):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(name, key, "authority", ca_key, is_ca=False)
        pem = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        file.write_bytes(key.private_bytes(*pem) + certificate.public_bytes(serialization.Encoding.PEM))
    return made


def _certificate(name: str, key: Any, issuer: str, issuer_key: Any, *, is_ca: bool) -> x509.Certificate:
    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    now = datetime.now(UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    return (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
