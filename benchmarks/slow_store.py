"""A slow S3 store on loopback: ``slowstore.rs``, compiled, and running for as long as a ``with`` lasts.

It is a program of its own, in a language without a lock that threads share, because a store in Python would be slower than its clients.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

LATENCY_MS = 25
MIB_PER_SECOND = 80
"""What one connection carries; together they carry what the machine does."""

_SOURCE = Path(__file__).with_name("slowstore.rs")


@dataclass(frozen=True, slots=True)
class StoreStats:
    """What a store was asked for.

    Attributes
    ----------
    bytes
        Of objects, sent; not those of listings.
    at_once
        The most object GETs that were under way together.

    """

    requests: int
    bytes: int
    gets: int
    heads: int
    lists: int
    at_once: int


@dataclass(frozen=True, slots=True)
class SlowStore:
    """A running store, known by what other processes need to know of it."""

    port: int
    pid: int

    @property
    def options(self) -> dict[str, Any]:
        """What s3fs takes to reach it, with as many connections as ledgerfs asks for."""
        return {
            "key": "anybody",
            "secret": "may read",
            "endpoint_url": f"http://127.0.0.1:{self.port}",
            "config_kwargs": {"max_pool_connections": 64},
        }

    def take_stats(self) -> StoreStats:
        """Return what was asked since the last call."""
        connection = HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/__stats")
        found = StoreStats(**json.load(connection.getresponse()))
        connection.close()
        return found

    def cpu_seconds(self) -> float:
        """Return the processor's time that the store has used since it was started."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def slow_store(folder: Path, build: Path) -> Iterator[SlowStore]:
    """Serve the folders in ``folder`` as buckets; ``build`` is where the compiled store is put."""
    with subprocess.Popen(
        [str(_compiled(build)), "0", str(folder), str(LATENCY_MS), str(MIB_PER_SECOND)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        # Leaving the block closes its standard input, at whose end the store ends too.
        assert process.stdout is not None
        yield SlowStore(int(process.stdout.readline()), process.pid)


def _compiled(build: Path) -> Path:
    if shutil.which("rustc") is None:
        print("the slow store is written in Rust, and there is no rustc here (apt install rustc)", file=sys.stderr)
        raise SystemExit(2)
    program = build / "slowstore"
    subprocess.run(["rustc", "-O", "-o", str(program), str(_SOURCE)], check=True)
    return program
