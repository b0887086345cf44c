"""Servers that speak as Google's and Azure's stores do, on loopback: fake-gcs-server and azurite, which scripts/setup installs."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Everybody's: azurite's own."""

_ACCOUNT = "devstoreaccount1"


@contextmanager
def google() -> Iterator[dict[str, Any]]:
    """Run fake-gcs-server; yields the options of gcsfs."""
    port = _free_port()
    address = f"127.0.0.1:{port}"
    server = [_program("fake-gcs-server"), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    names = ["-public-host", address, "-external-url", f"http://{address}"]
    with _running([*server, *names, "-backend", "memory", "-log-level", "error"], port):
        yield {"token": "anon", "project": "test", "endpoint_url": f"http://{address}"}


@contextmanager
def azure(folder: Path) -> Iterator[dict[str, Any]]:
    """Run azurite over a folder; yields the options of adlfs."""
    port = _free_port()
    server = [_program("azurite-blob"), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder)]
    endpoint = f"http://127.0.0.1:{port}/{_ACCOUNT}"
    text = f"DefaultEndpointsProtocol=http;AccountName={_ACCOUNT};AccountKey={AZURE_KEY};BlobEndpoint={endpoint};"
    with _running([*server, "--silent", "--skipApiVersionCheck", "--disableTelemetry"], port):
        yield {"connection_string": text}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _program(name: str) -> str:
    """Return a program that scripts/setup has installed beside Python, or that is on the path."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{name} is missing: scripts/setup installs it where Go and npm are")
    return found


@contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait(port, process)
            yield
        finally:
            process.kill()


def _wait(port: int, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + 240
    while time.monotonic() < until and process.poll() is None:
        try:
            connection = HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/")
            connection.getresponse().read()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"{process.args!r} does not answer")
