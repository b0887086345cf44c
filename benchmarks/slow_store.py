"""A slow S3 store on loopback: ``slowstore.rs``, compiled, running within a ``with``.

It is a program in Rust, because a store in Python would be slower than its clients.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obstore.store import S3Store

LATENCY_MS = 25
MIB_PER_SECOND = 80
"""Of one connection; together they transfer as much as the machine can."""

_SOURCE = Path(__file__).with_name("slowstore.rs")


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Requests to a store, bytes of objects that it sent, and how many of the requests were listings."""

    requests: int
    bytes: int
    lists: int


@dataclass(frozen=True, slots=True)
class SlowStore:
    """A running store; it pickles."""

    port: int

    @property
    def options(self) -> dict[str, Any]:
        """Options of s3fs, with as many connections as ledgerfs opens."""
        return {
            "key": "anybody",
            "secret": "may read",
            "endpoint_url": f"http://127.0.0.1:{self.port}",
            "config_kwargs": {"max_pool_connections": 64},
        }

    def take_stats(self) -> StoreStats:
        """Return the requests since the last call."""
        connection = HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/__stats")
        found = StoreStats(**json.load(connection.getresponse()))
        connection.close()
        return found


def obstore_of(bucket: str, options: dict[str, Any]) -> "S3Store":
    """Return obstore's own client for a bucket, from s3fs's options: the baseline."""
    from obstore.store import S3Store

    return S3Store(
        bucket,
        endpoint=options["endpoint_url"],
        access_key_id=options["key"],
        secret_access_key=options["secret"],
        client_options={"allow_http": True},
    )


@contextmanager
def slow_store(folder: Path, build: Path) -> Iterator[SlowStore]:
    """Serve the folders in ``folder`` as buckets; the compiled store is put into ``build``."""
    with subprocess.Popen(
        [str(_compiled(build)), "0", str(folder), str(LATENCY_MS), str(MIB_PER_SECOND)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        # Leaving the block closes its standard input, at whose end the store ends too.
        assert process.stdout is not None
        yield SlowStore(int(process.stdout.readline()))


def _compiled(build: Path) -> Path:
    if shutil.which("rustc") is None:
        raise SystemExit("the slow store is written in Rust, and rustc is missing (apt install rustc)")
    program = build / "slowstore"
    subprocess.run(["rustc", "-O", "-o", str(program), str(_SOURCE)], check=True)
    return program
