"""Every call of ledgerfs' commands, the writer's among them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from interop.processes import LEASH
from interop.s3_server import BUCKET, CREDENTIALS, S3Server

_LEDGERFS = Path(sys.executable).with_name("ledgerfs")


def offload(source: S3Server, target: S3Server, options: Sequence[str] = ()) -> None:
    """Write every ledger of one server's bucket into the other's, under the same ledger ids and keys.

    The credentials are in the environment, and both servers have the same.
    """
    endpoints = ("-o", f"endpoint_url={source.endpoint}", "--target-option", f"endpoint_url={target.endpoint}")
    _ledgerfs("offload", f"s3://{BUCKET}", f"s3://{BUCKET}", *endpoints, *options)


def verify(s3: S3Server) -> None:
    """Check every record and checksum of the bucket."""
    _ledgerfs("verify", f"s3://{BUCKET}", "-o", f"endpoint_url={s3.endpoint}")


def _ledgerfs(*arguments: str) -> None:
    command = [*LEASH, str(_LEDGERFS), *arguments]
    done = subprocess.run(
        command, env=os.environ | CREDENTIALS, capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
