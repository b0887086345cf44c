"""Measure in new processes, in turn with baselines, and print the rows of ``docs/operating/performance.md``.

No cache, event loop or connection of an earlier measurement helps or hinders in a new process. A *preparation* imports, connects and
compiles, and returns the *work*, which is timed.
"""

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median

from benchmarks.slow_store import SlowStore, StoreStats

PAGE = Path(__file__).parent.parent / "docs" / "operating" / "performance.md"
MIB = 1 << 20

Preparation = Callable[[], Callable[[], int]]


class Rows:
    """The rows of one benchmark in the page, printed with their goals as they are measured."""

    def __init__(self, benchmark: str) -> None:
        self._goals = goals_of(benchmark)
        self._printed: set[str] = set()
        print(f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")

    def add(self, what: str, measured: str) -> None:
        """Print a row of the page; `KeyError` for one that the page does not have."""
        print(f"{what:<64} {self._goals[what]:<48} {measured}", flush=True)
        self._printed.add(what)

    def require_all(self) -> None:
        """Exit with an error if a row of the page was not printed."""
        missing = [what for what in self._goals if what not in self._printed]
        if missing:
            raise SystemExit(f"not measured, but in {PAGE}: {missing}")


def goals_of(benchmark: str) -> dict[str, str]:
    """Return {row: goal} of the tables in the section of the page that names a benchmark."""
    (section,) = (one for one in PAGE.read_text().split("\n## ") if f"`python -m benchmarks.{benchmark}`" in one)
    cells = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return {row[0].strip(): row[1].strip() for row in cells if row[0].strip() not in {"what", "---"}}


def chosen(given: Sequence[str] | None, rows: Rows, works: Mapping[str, Callable[[], None]]) -> None:
    """Run the given works, or all; after all, every row must have been printed."""
    for name in given or list(works):
        works[name]()
    if not given:
        rows.require_all()


@dataclass(frozen=True, slots=True)
class Measurement:
    """Bytes or rows of a piece of work, its s, s of the processor and requests to the slow store, and the memory of the process, bytes."""

    value: int
    seconds: float
    cpu: float
    stats: StoreStats | None
    peak_memory: int

    @property
    def rate(self) -> float:
        """Value a second."""
        return self.value / self.seconds

    @property
    def throughput(self) -> str:
        """Throughput of bytes, and the processor's time for them."""
        return f"{self.rate / MIB:.0f} MiB/s, {self.cpu / self.value * 2**30:.2f} CPU s a GiB"


def measured(prepare: Preparation, store: SlowStore | None = None) -> Measurement:
    """Prepare and measure in this process."""
    work = prepare()
    if store is not None:
        store.take_stats()
    cpu, start = time.process_time(), time.perf_counter()
    value = work()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return Measurement(value, seconds, cpu, store.take_stats() if store else None, peak_memory())


def measured_afresh(prepare: Preparation, store: SlowStore | None = None) -> Measurement:
    """Prepare and measure in a new process with an empty cache folder; ``prepare`` must pickle."""
    with (
        tempfile.TemporaryDirectory(prefix="ledgerfs-bench-cache-") as cache,
        ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), initializer=_use_cache_folder, initargs=(cache,)
        ) as pool,
    ):
        return pool.submit(measured, prepare, store).result()


def best_of(runs: int, works: Mapping[str, Preparation], store: SlowStore | None = None) -> dict[str, Measurement]:
    """Measure each as often, in turn, in new processes, and return the fastest of each."""
    found = [{name: measured_afresh(prepare, store) for name, prepare in works.items()} for _ in range(runs)]
    return {name: min((run[name] for run in found), key=lambda one: one.seconds) for name in works}


def best_seconds(
    runs: int, *works: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Return the seconds of the best run of each work; they take turns in this process."""
    return [min(times) for times in _in_turn(runs, works, clock)]


def median_seconds(runs: int, warm_up: int, works: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median seconds of each work, in turn; the first ``warm_up`` runs, in which Java compiles, are not counted."""
    found = _in_turn(runs + warm_up, list(works.values()), time.perf_counter)
    return {name: median(times[warm_up:]) for name, times in zip(works, found, strict=True)}


def _in_turn(runs: int, works: Sequence[Callable[[], object]], clock: Callable[[], float]) -> list[list[float]]:
    times: list[list[float]] = [[] for _ in works]
    for _ in range(runs):
        for work, of_work in zip(works, times, strict=True):
            start = clock()
            work()
            of_work.append(clock() - start)
    return times


def peak_memory() -> int:
    """Return the largest resident size of this process, bytes."""
    # Not ru_maxrss, which begins with the peak of the process that started this one.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) << 10


def _use_cache_folder(folder: str) -> None:
    os.environ["LEDGERFS_CACHE_DIR"] = folder
