"""A real S3 server on loopback, `versitygw` over a folder, for as long as a ``with`` lasts: one that is written to, and adds no waiting."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_HOW = "go install github.com/versity/versitygw/cmd/versitygw@latest"


@contextmanager
def gateway(folder: Path) -> Iterator[dict[str, Any]]:
    """Serve the folders in ``folder`` as buckets; yields what s3fs takes to reach them."""
    program = shutil.which("versitygw", path=f"{os.environ['PATH']}:{Path.home() / 'go' / 'bin'}")
    if program is None:
        print(f"the S3 server of this benchmark is versitygw, which is not here ({_HOW})", file=sys.stderr)
        raise SystemExit(2)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "--access", "anybody", "--secret", "may-write", "--port", f"127.0.0.1:{port}", "posix", str(folder)]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(port, process)
        yield {"key": "anybody", "secret": "may-write", "endpoint_url": f"http://127.0.0.1:{port}"}
    finally:
        process.terminate()
        process.wait()


def _wait(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise SystemExit("versitygw does not start")
