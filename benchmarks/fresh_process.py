"""Measuring in a process of its own: no cache, event loop or connection of an earlier measurement helps, or hinders.

What is measured comes in two steps: a *preparation*, which imports, connects and compiles, and returns the *work*, which is timed.
"""

import os
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Generic, TypeVar

from benchmarks.slow_store import SlowStore, StoreStats

T = TypeVar("T")

Preparation = Callable[[], Callable[[], T]]


@dataclass(frozen=True, slots=True)
class Measurement(Generic[T]):
    """What a piece of work returned, and what it cost.

    Attributes
    ----------
    client_cpu, server_cpu
        Seconds of the processor.
    peak_memory
        Of the whole process, bytes.
    others_cpu
        Seconds that all else on this machine took meanwhile: a figure with many of them tells little.

    """

    value: T
    seconds: float
    client_cpu: float
    server_cpu: float
    stats: StoreStats
    peak_memory: int
    others_cpu: float


def measured(store: SlowStore, prepare: Preparation[T]) -> Measurement[T]:
    """Prepare and measure here; ``prepare`` must pickle to be measured elsewhere."""
    work = prepare()
    store.take_stats()
    before, start = _cpu_seconds(store), time.perf_counter()
    value = work()
    seconds = time.perf_counter() - start
    client, server, machine = (now - then for now, then in zip(_cpu_seconds(store), before, strict=True))
    others = max(0.0, machine - client - server)
    return Measurement(value, seconds, client, server, store.take_stats(), _peak_memory(), others)


def measured_afresh(store: SlowStore, prepare: Preparation[T]) -> Measurement[T]:
    """Prepare and measure in a new process, whose cache on disk is empty."""
    with (
        tempfile.TemporaryDirectory(prefix="ledgerfs-bench-cache-") as cache,
        ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), initializer=_use_cache_folder, initargs=(cache,)
        ) as pool,
    ):
        return pool.submit(measured, store, prepare).result()


def _use_cache_folder(folder: str) -> None:
    os.environ["LEDGERFS_CACHE_DIR"] = folder


def _cpu_seconds(store: SlowStore) -> tuple[float, float, float]:
    """Return the processor's time of this process, of the store, and of the whole machine."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    # user, nice, system, idle, iowait, irq, softirq, steal: all but those in which nobody worked
    ticks = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    machine = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
    return own.ru_utime + own.ru_stime, store.cpu_seconds(), machine


def _peak_memory() -> int:
    # Not ru_maxrss, which begins with the peak of the process that started this one.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) << 10
