"""The processor's seconds of whole commands, Python's start and compilation included, against the wanted ones.

Cold: ``ledgerfs head`` of topics that a real Pulsar wrote, in a local folder, with an empty ``NUMBA_CACHE_DIR``. Warm: the same
command, and others, with everything compiled. The best of several runs is printed, all topics in turn.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.measuring import Rows, chosen
from ledgerfs import copy_ledgers, open_bucket
from ledgerfs.schemas.saved_schemas import SavedSchemas
from tests.support.typed_golden import answers

GOLDEN = Path(__file__).parent.parent / "tests" / "data" / "golden"
PLAIN = "persistent://public/golden/plain"
TYPED = {
    "typed Avro": "persistent://public/typed/avro-pojo",
    "typed JSON": "persistent://public/typed/json-pojo",
    "typed Protobuf": "persistent://public/typed/protonative",
}


@dataclass(frozen=True, slots=True)
class Run:
    """A command that has ended: s of the processor, s, and its line on standard error about compiling."""

    cpu: float
    seconds: float
    line: str

    def __str__(self) -> str:
        return f"{self.cpu:.2f} CPU s ({self.seconds:.1f} s{'; stderr: ' + repr(self.line) if self.line else ''})"


def run(arguments: Sequence[str], compiled: str) -> Run:
    """Run a command of ledgerfs with kernels in the folder ``compiled``, and no other cache."""
    with tempfile.TemporaryDirectory(prefix="ledgerfs-bench-cache-") as cache:
        # A terminal, because ledgerfs prints notices only there.
        terminal, errors = os.openpty()
        environment = {**os.environ, "NUMBA_CACHE_DIR": compiled, "LEDGERFS_CACHE_DIR": cache}
        start = time.perf_counter()
        command = [sys.executable, "-m", "ledgerfs", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        # So that there is something to read.
        os.write(errors, b"\n")
        printed = re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", os.read(terminal, 1 << 16).decode())
        os.close(errors)
        os.close(terminal)
    if process.returncode:
        raise SystemExit(f"{command} failed: {printed}")
    return Run(
        used.ru_utime + used.ru_stime, seconds, next((line for line in printed.splitlines() if "compiling" in line), "")
    )


def run_cold(arguments: Sequence[str]) -> Run:
    """Run a command where nothing is compiled."""
    with tempfile.TemporaryDirectory(prefix="ledgerfs-bench-numba-") as compiled:
        return run(arguments, compiled)


def show(runs: int, commands: dict[str, Callable[[], Run]], rows: Rows) -> None:
    """Print the best run of each command."""
    found = [{what: command() for what, command in commands.items()} for _ in range(runs)]
    for what in commands:
        rows.add(what, str(min((one[what] for one in found), key=lambda one: one.cpu)))


def make_buckets(folder: Path) -> tuple[str, str]:
    """Unpack topics; return the buckets of plain and of typed topics, the latter with its schemas."""
    for name in ("pulsar-s3", "pulsar-typed"):
        with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
            archive.extractall(folder)
    typed, schemas = folder / "typed", answers(folder / "pulsar-typed")
    typed.mkdir()
    copy_ledgers(str(folder / "pulsar-typed" / "bucket"), str(typed), topics=list(TYPED.values()))
    saved = SavedSchemas(open_bucket(str(typed)).raw_store)
    for topic in TYPED.values():
        saved.add(topic, schemas[topic])
    return str(folder / "pulsar-s3" / "bucket"), str(typed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="of which the best is printed")
    parser.add_argument("--only", nargs="*", choices=("cold", "warm"), metavar="cold|warm")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ledgerfs-bench-") as folder:
        plain, typed = make_buckets(Path(folder))
        heads = {"plain": ["head", plain, PLAIN], **{name: ["head", typed, topic] for name, topic in TYPED.items()}}
        compiled = f"{folder}/compiled"
        warm = {"`--help`": ["--help"], "`topics`": ["topics", plain], "`head` of the plain topic": heads["plain"]}
        run(heads["plain"], compiled)
        rows = Rows("cold_start")
        works = {
            "cold": partial(show, given.runs, {what: partial(run_cold, one) for what, one in heads.items()}, rows),
            "warm": partial(show, given.runs, {what: partial(run, one, compiled) for what, one in warm.items()}, rows),
        }
        chosen(given.only, rows, works)


if __name__ == "__main__":
    main()
