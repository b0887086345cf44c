"""``ledgerfs recover`` as an operator runs it: about the bucket of a server, into a new cluster."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from interop.cluster import Cluster
from interop.processes import LEASH
from interop.s3_server import BUCKET, CREDENTIALS, S3Server
from interop.waiting import wait_until

LEDGERFS = (str(Path(sys.executable).with_name("ledgerfs")),)
_PATIENCE_S = 1800


@dataclass(frozen=True)
class RecoverCommand:
    """``always`` are arguments of each plan and run."""

    s3: S3Server
    always: tuple[str, ...] = ()

    def line(self, name: str, *arguments: str, program: Sequence[str] = LEDGERFS) -> list[str]:
        """Return the command line of plan, run or check; its answer is JSON."""
        bucket = (f"s3://{BUCKET}", "-o", f"endpoint_url={self.s3.endpoint}")
        always = () if name == "check" else self.always
        return [*LEASH, *program, "recover", name, *bucket, "--json", *always, *arguments]

    def __call__(self, name: str, *arguments: str, code: int = 0) -> Any:
        """Run it; return what its JSON says."""
        done = self._done(self.line(name, *arguments))
        _require_code(name, done, code)
        return json.loads(done.stdout)

    def dies_at(self, step: str, name: str, *arguments: str) -> None:
        """Run it until it dies at a step (`interop.killed_recovery`)."""
        program = (sys.executable, "-m", "interop.killed_recovery", step)
        _require_code(step, self._done(self.line(name, *arguments, program=program)), -9)

    def _done(self, line: list[str]) -> "subprocess.CompletedProcess[str]":
        environment = os.environ | CREDENTIALS
        return subprocess.run(line, capture_output=True, text=True, timeout=_PATIENCE_S, check=False, env=environment)


def _require_code(what: str, done: "subprocess.CompletedProcess[str]", code: int) -> None:
    reported = f"{what}: exit code {done.returncode}\n{_wrong(done.stdout)}\n{done.stderr[-6000:]}"
    assert done.returncode == code, reported


def _wrong(report: str) -> str:
    """Return what a report has of topics that are not as they should be, or the end of what is no report."""
    try:
        topics = json.loads(report)["topics"]
    except ValueError:
        return report[-3000:]
    kinds = ("differing", "missing", "unexpected", "repeated")
    wrong = [
        one
        for one in topics
        if one["why"] or any((one["compared"] or {}).get(kind, {}).get("messages") for kind in kinds)
    ]
    return json.dumps(wrong, indent=2)[:6000]


def into(cluster: Cluster) -> tuple[str, ...]:
    """Return the arguments that name a new cluster."""
    return ("--into", f"pulsar+zk://{cluster.zookeeper}", "--admin", cluster.admin.address)


def wait_until_unlocked(cluster: Cluster) -> None:
    """Wait until the session of a run that was killed is over."""
    client = KazooClient(cluster.zookeeper)
    client.start(timeout=300)
    try:
        wait_until(lambda: client.exists("/ledgerfs/lifecycle/lock") is None, "nobody has the lock")
    finally:
        client.stop()
        client.close()
