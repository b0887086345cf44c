"""Turns of 100,000 topics: simulated, and measured against ideal ones.

``python -m benchmarks.lifecycle_scheduling`` makes topics whose backlogs are Zipf's and whose ledgers are of sizes with a heavy tail,
drains them with some workers that share a rate, and prints picks a second, how even the topics were served, and how much later each was
done than with a fluid scheduler, which serves all at once. Times are simulated, except for picks a second.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from ledgerfs_cluster.lifecycle.service.background import Due, FairTurns

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40
PIECES = 8
"""A ledger is charged in so many parts."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Load:
    """Topics by their number: bytes of each, and its ledgers."""

    sizes: Floats
    work: dict[str, list[Due]]

    @property
    def ledgers(self) -> int:
        """All ledgers."""
        return sum(map(len, self.work.values()))

    @property
    def largest(self) -> int:
        """Bytes of the largest ledger."""
        return max(one.size for some in self.work.values() for one in some)


def made_load(topics: int, total: float, exponent: float, seed: int = 1) -> Load:
    """Return topics whose bytes are Zipf's, with ledgers whose sizes are Pareto's, up to 16 GiB."""
    dice = np.random.default_rng(seed)
    weights = 1 / np.arange(1, topics + 1) ** exponent
    sizes = dice.permutation(np.maximum(1.0, np.round(weights / weights.sum() * total)))
    typical = np.minimum(16 * GIB, 64 * MIB * (1 + dice.pareto(1.1, topics)))
    work: dict[str, list[Due]] = {}
    for topic, (size, each) in enumerate(zip(sizes.tolist(), typical.tolist(), strict=True)):
        count = max(1, round(size / each))
        cuts = np.linspace(0, size, count + 1).astype(np.int64)
        work[str(topic)] = [Due(str(topic), i, one) for i, one in enumerate(np.diff(cuts).tolist())]
    return Load(sizes, work)


@dataclass(frozen=True, slots=True)
class Served:
    """When topics were first served and done, s, and {part of all that was sent: bytes of each then}."""

    first: Floats
    done: Floats
    at_part: dict[float, Floats]


def drained(load: Load, turns: FairTurns, workers: int, rate: float, parts: Sequence[float]) -> Served:
    """Drain a load: workers that have something to do share the rate evenly."""
    topics, now, each, total = load.sizes.size, 0.0, 0.0, 0.0
    first, done = np.full(topics, np.inf), np.zeros(topics)
    sent = np.zeros(topics)
    at_part: dict[float, Floats] = {}
    all_bytes = load.sizes.sum()
    turns.replace(load.work)
    busy: list[tuple[float, int, int, Due]] = []
    number, free = 0, workers
    while True:
        while free and (work := turns.take()) is not None:
            first[int(work.topic)] = min(first[int(work.topic)], now)
            heappush(busy, (each + work.size / PIECES, number, 1, work))
            number, free = number + 1, free - 1
        if not busy:
            return Served(first, done, at_part)
        # ``each`` is what every worker that was busy all the time has sent.
        at, _, piece, work = heappop(busy)
        now += (at - each) * (len(busy) + 1) / rate
        each = at
        size = work.size * piece // PIECES - work.size * (piece - 1) // PIECES
        sent[int(work.topic)] += size
        total += size
        if len(at_part) < len(parts) and total >= parts[len(at_part)] * all_bytes:
            at_part[parts[len(at_part)]] = sent.copy()
        if piece < PIECES:
            number += 1
            heappush(busy, (each + work.size / PIECES, number, piece + 1, work))
        else:
            done[int(work.topic)] = now
            free += 1


def fluid_done(sizes: Floats, rate: float) -> Floats:
    """Return when each topic would be done if all that have something left were served at once, evenly."""
    order = np.argsort(sizes)
    ordered = sizes[order]
    left = np.arange(sizes.size - 1, -1, -1)
    done = np.empty_like(sizes)
    done[order] = (np.cumsum(ordered) + ordered * left) / rate
    return done


def jain(values: Floats) -> float:
    """Return Jain's index of fairness: 1 if all are equal."""
    return float(values.sum() ** 2 / (values.size * (values**2).sum()))


def measure_picks(load: Load) -> None:
    turns = FairTurns()
    began = time.perf_counter()
    turns.replace(load.work)
    replaced = time.perf_counter()
    picks = 0
    while turns.take() is not None:
        picks += 1
    took = time.perf_counter() - replaced
    print(f"a plan of {load.ledgers:,} ledgers of {load.sizes.size:,} topics is taken in {replaced - began:.2f} s")
    print(f"{picks / took:,.0f} picks/s ({picks:,} picks in {took:.2f} s)")


def measure_fairness(load: Load, workers: int, rate: float) -> None:
    served = drained(load, FairTurns(), workers, rate, (0.1, 0.5))
    ideal = fluid_done(load.sizes, rate)
    late = served.done - ideal
    worst = int(np.argmax(late))
    bound = load.largest / GIB
    for part, at_part in served.at_part.items():
        fair = at_part[at_part < load.sizes * 0.999]
        level = float(np.median(fair))
        print(
            f"  when {part:.0%} of it was sent, {fair.size:,} topics had something left; Jain's index of their bytes {jain(fair):.4f}: "
            f"median {level / GIB:.3f} GiB, furthest from it {np.abs(fair - level).max() / GIB:.2f}; bound {bound:.2f}"
        )
    all_done = load.sizes.sum() / rate
    print(
        f"  worst wait: topic of {load.sizes[worst] / GIB:.2f} GiB was done at {served.done[worst]:,.0f} s, "
        f"fluid at {ideal[worst]:,.0f} s: {late[worst]:,.0f} s later ({late[worst] / all_done:.1%} of all)"
    )
    ratio = served.done / ideal
    print(
        f"  done, in times of the fluid's: median {np.median(ratio):.2f}, 99 % {np.quantile(ratio, 0.99):.2f}, worst {ratio.max():.2f}"
    )
    print(f"  first served after {served.first.max():,.0f} s at the latest (all: {all_done:,.0f} s)")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--tebibytes", type=float, default=200.0, help="backlog of all topics")
    parser.add_argument("--exponent", type=float, default=1.1, help="Zipf's")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rate", type=float, default=1.0 * GIB, help="bytes a second of all workers")
    given = parser.parse_args(arguments)
    load = made_load(given.topics, given.tebibytes * TIB, given.exponent)
    print(
        f"{given.topics:,} topics, {load.ledgers:,} ledgers, {load.sizes.sum() / TIB:.0f} TiB; the smallest topic has "
        f"{load.sizes.min() / MIB:.0f} MiB, the largest {load.sizes.max() / TIB:.1f} TiB, the largest ledger {load.largest / GIB:.1f} GiB"
    )
    measure_picks(load)
    print(f"{given.workers} workers at {given.rate / MIB:,.0f} MiB/s:")
    measure_fairness(load, given.workers, given.rate)


if __name__ == "__main__":
    main()
