"""A golden set that is lost, and an empty cluster into which its topics are restored, by runs some of which die."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from interop.cluster import Cluster
from interop.java_client import JavaClient
from interop.keys import KeyPair
from interop.lost_golden import LostGolden
from interop.processes import Processes
from interop.recover_command import into, wait_until_unlocked
from interop.s3_server import S3Server
from interop.stages import stage


@dataclass(frozen=True)
class Recovered:
    """See the module."""

    lost: LostGolden
    cluster: Cluster
    java: JavaClient

    def dies_at(self, step: str, *more: str) -> None:
        """Have a run die at a step, and wait until its lock is free."""
        with stage(f"{self.lost.golden.name}: runs that die"):
            self.lost.recover.dies_at(step, "run", *into(self.cluster), *more)
            wait_until_unlocked(self.cluster)


@contextmanager
def lent_recovered(name: str, folder: Path, classes: Path, keys: KeyPair | None) -> Iterator[Recovered]:
    """Start an empty cluster beside what is left of a golden set; without keys, encrypted messages are read with the set's own."""
    folder.mkdir()
    processes = Processes(folder)
    s3 = S3Server("s3", folder / "s3", processes)
    cluster = Cluster(folder / "pulsar", processes)
    try:
        with stage(f"{name}: start Pulsar"):
            lost = LostGolden.of(name, folder, s3.start())
            cluster.start(s3)
        own = lost.golden / "keys"
        yield Recovered(
            lost, cluster, JavaClient(cluster, classes, keys or KeyPair(own / "public.pem", own / "private.pem"))
        )
    finally:
        processes.stop_all()
