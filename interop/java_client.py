"""The Java client: it produces, and its reader says what a topic holds."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from interop.cluster import Cluster, java_command
from interop.keys import KeyPair
from interop.processes import LEASH

_PATIENCE_S = 1800.0

Lines = dict[str, list[dict[str, Any]]]


class JavaClientError(Exception):
    """One of the programs failed; the text is what it said."""


@dataclass(frozen=True)
class JavaClient:
    """``classes`` has the programs compiled."""

    cluster: Cluster
    classes: Path
    keys: KeyPair

    def produce(self, namespace: str, old_namespace: str, *, seed: int, round_number: int) -> None:
        """Write one round of every kind of message."""
        numbers = (str(seed), str(round_number))
        self._run("Produce", namespace, old_namespace, *numbers, str(self.keys.public))

    def read(self, topics: Sequence[str], patience_s: float = _PATIENCE_S) -> Lines:
        """Return what a reader returns, from the start of each topic to its end."""
        with TemporaryDirectory(dir=self.cluster.folder) as folder:
            self._run("Dump", folder, str(self.keys.private), *topics, patience_s=patience_s)
            return {topic: _lines(Path(folder, f"{number}.jsonl")) for number, topic in enumerate(topics)}

    def read_typed(self, topics: Sequence[str]) -> Lines:
        """Return the values that a reader decodes with the broker's schemas."""
        with TemporaryDirectory(dir=self.cluster.folder) as folder:
            self._run("DumpTyped", folder, *topics)
            return {topic: _lines(Path(folder, f"{number}.jsonl")) for number, topic in enumerate(topics)}

    def read_values(self, topics: Sequence[str]) -> Lines:
        """Return what `DumpValues` tells: the values that a reader decodes, in the words of the typed golden set."""
        with TemporaryDirectory(dir=self.cluster.folder) as folder:
            self._run("DumpValues", folder, *topics)
            return {topic: _lines(Path(folder, f"{number}.jsonl")) for number, topic in enumerate(topics)}

    def command(self, main: str, *arguments: str) -> list[str]:
        """Return the command that runs one of the programs."""
        return java_command(main, self.cluster.service_url, *arguments, heap="1g", quiet=True, classes=self.classes)

    def _run(self, main: str, *arguments: str, patience_s: float = _PATIENCE_S) -> None:
        done = subprocess.run(
            [*LEASH, *self.command(main, *arguments)], capture_output=True, text=True, timeout=patience_s, check=False
        )
        if done.returncode:
            raise JavaClientError(f"{main}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


def _lines(path: Path) -> list[dict[str, Any]]:
    with path.open() as lines:
        return [json.loads(line) for line in lines]
