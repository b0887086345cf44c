"""All ways in which ledgerfs reads topics: as a table, with Spark, through a mount, by commands; rows in the words of the Java reader."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from interop.java_client import Lines
from interop.keys import KEY_NAME, KeyPair
from interop.live_cluster import LiveCluster
from interop.processes import LEASH
from interop.waiting import wait_until
from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from tests.support.golden_rows import as_java_says, rows_of

OPEN_END = {"open_end": "acknowledged"}
"""Up to where a Java reader reads: its broker knows what it acknowledged."""

_LEDGERFS = str(Path(sys.executable).with_name("ledgerfs"))
_REFRESH_S = 1
_ATTEMPTS = 20
_FOLLOWS_S = 2
_INTERRUPTED = 130
"""The exit code of a command after Ctrl-C."""


@dataclass
class Ways:
    """The ways to read one cluster; the session and the mount stay open meanwhile."""

    live: LiveCluster
    keys: KeyPair
    spark_session: SparkSession
    mount_point: Path
    bucket: Bucket = field(init=False)

    def __post_init__(self) -> None:
        self.bucket = open_bucket(self.live.url, OPEN_END)

    @property
    def all(self) -> dict[str, Callable[[Sequence[str]], Lines]]:
        """Each way, by its name."""
        return {"scan": self.scan, "spark": self.spark, "mount": self.mount, "export": self.export}

    def scan(self, topics: Sequence[str]) -> Lines:
        """Read with `Topic.scan`."""
        self.bucket.refresh()
        return {
            topic: rows_of(self.bucket.topic(topic).scan(private_keys={KEY_NAME: self.keys.private}))
            for topic in topics
        }

    def spark(self, topics: Sequence[str]) -> Lines:
        """Read with Spark's data source, all topics at once."""
        frame = (
            self.spark_session.read.format("ledgerfs")
            .options(**{f"storage.{name}": value for name, value in OPEN_END.items()})
            .option("topics", json.dumps(list(topics)))
            .option("privateKeys", f"{KEY_NAME}={self.keys.private}")
            .load(self.live.url)
        )
        return _by_topic(frame.toArrow(), topics)

    def mount(self, topics: Sequence[str]) -> Lines:
        """Read the mount's table files, whose names are those of ledgers.

        Who asks a mount that has not been asked for a while is told of before: of new ledgers, and of what has been added to the open one,
        somebody is told who asks later.
        """
        bucket = open_bucket(self.live.url, OPEN_END)
        wait_until(lambda: self._lists(bucket, topics), "the mount lists all ledgers")
        return {topic: self._rows_of_at_least(topic, bucket.topic(topic).count()) for topic in topics}

    def export(self, topics: Sequence[str]) -> Lines:
        """Export with the command."""
        with TemporaryDirectory(dir=self.live.cluster.folder) as folder:
            for number, topic in enumerate(topics):
                self.command("export", topic, f"{folder}/{number}", "--private-key", f"{KEY_NAME}={self.keys.private}")
            return {
                topic: _rows_of_files(Path(folder, str(number)).rglob("*.parquet"))
                for number, topic in enumerate(topics)
            }

    def command(self, name: str, *arguments: str) -> str:
        """Run a command on the cluster in a process of its own; return what it says."""
        options = [text for key, value in OPEN_END.items() for text in ("-o", f"{key}={value}")]
        command = [*LEASH, _LEDGERFS, name, self.live.url, *arguments, *options]
        return _output(command)

    def cluster_command(self, name: str, *arguments: str, code: int = 0) -> Any:
        """Run a command about the whole cluster in a process of its own; return what it says in JSON."""
        return json.loads(_output([*LEASH, _LEDGERFS, "cluster", name, self.live.url, *arguments, "--json"], code))

    def interrupted_head(self, topic: str, lines: int, seconds: float = 60) -> list[str]:
        """Follow a topic from its beginning by the command, and press Ctrl-C a while after so many lines came; return all that came."""
        options = [text for key, value in OPEN_END.items() for text in ("-o", f"{key}={value}")]
        command = [
            *LEASH,
            _LEDGERFS,
            "head",
            "--follow",
            "--from",
            "earliest",
            self.live.url,
            topic,
            "--json",
            *options,
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            patience = threading.Timer(seconds, process.kill)
            patience.start()
            try:
                assert process.stdout is not None
                came = [process.stdout.readline() for _ in range(lines)]
                # It looks for more meanwhile, several times.
                time.sleep(_FOLLOWS_S)
                process.send_signal(signal.SIGINT)
                rest, said = process.communicate()
            finally:
                patience.cancel()
        assert process.returncode == _INTERRUPTED, (process.returncode, said)
        assert said.endswith("interrupted\n"), said
        return [*came, *rest.splitlines(keepends=True)]

    def _folder(self, topic: str, view: str) -> Path:
        """Return a topic's directory, which is called as the broker calls its managed ledger."""
        managed_ledger = self.bucket.topic(topic).managed_ledger or ""
        tenant, *namespace, _, name = managed_ledger.split("/")
        return self.mount_point / view / tenant / "%2F".join(namespace) / name

    def _rows_of_at_least(self, topic: str, messages: int) -> list[dict[str, Any]]:
        """Read a topic as the mount has it, until it has so many messages."""
        rows: list[dict[str, Any]] = []

        def has_all() -> bool:
            rows[:] = _rows_of_files(self._folder(topic, "parquet").glob("*.parquet"))
            return len(rows) >= messages

        wait_until(has_all, f"the mount has {messages} messages of {topic}")
        return rows

    def _lists(self, bucket: Bucket, topics: Sequence[str]) -> bool:
        """Whether the mount has all ledgers of the moment in which this was first asked."""
        return all(
            {f"{ledger.ref.ledger_id}.parquet" for ledger in bucket.topic(topic).ledgers}
            <= {file.name for file in self._folder(topic, "parquet").glob("*")}
            for topic in topics
        )


@contextmanager
def mounted(live: LiveCluster, folder: Path) -> Iterator[Path]:
    """Mount the cluster by the command, in a process that ends with this one."""
    point = folder / "mnt"
    point.mkdir(parents=True)
    options = [text for key, value in OPEN_END.items() for text in ("-o", f"{key}={value}")]
    command = [_LEDGERFS, "mount", live.url, str(point), "--foreground", "--refresh", f"{_REFRESH_S}s", *options]
    live.cluster.processes.launch("mount", command, {})
    try:
        wait_until(lambda: os.path.ismount(point), "the mount answers")
        yield point
    finally:
        subprocess.run([_LEDGERFS, "umount", str(point)], capture_output=True, check=False)
        live.cluster.processes.stop("mount")


def _output(command: Sequence[str], code: int = 0) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == code, f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def _by_topic(table: pa.Table, topics: Sequence[str]) -> Lines:
    found: dict[str, list[dict[str, Any]]] = {topic: [] for topic in topics}
    for row in table.to_pylist():
        found[row["topic"]].append(as_java_says(row))
    return {topic: sorted(rows, key=_place) for topic, rows in found.items()}


def _place(row: dict[str, Any]) -> tuple[int, int, int]:
    index = row["batch_index"]
    return row["ledger_id"], row["entry_id"], -1 if index is None else index


def _rows_of_files(files: Iterator[Path]) -> list[dict[str, Any]]:
    ordered = sorted(files, key=lambda file: int(file.name.partition(".")[0].rpartition("-")[2]))
    return [as_java_says(row) for file in ordered for row in pq.read_table(pa.BufferReader(_bytes(file))).to_pylist()]


def _bytes(file: Path) -> bytes:
    """Return a file of one moment. That of an open ledger is another one at each refresh, and who has the old one open is told so."""
    for _ in range(_ATTEMPTS):
        try:
            return file.read_bytes()
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
    raise TimeoutError(f"{file} is replaced each time it is read")
