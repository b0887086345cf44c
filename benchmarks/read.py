"""Reads from a slow S3 store, against the best that obstore does with the same bytes from the same store.

The store (`slowstore.rs`) waits 25 ms before each answer and carries 80 MiB/s on each connection; it runs on the same processors as its
readers. Each measurement is a process of its own, subjects and baselines in turn, and the best of several runs is told, with what all else
on the machine took of its processors meanwhile; each single one goes to standard error as it is made. What is timed begins when modules
are imported, kernels compiled, the catalog loaded and a first request made, on both sides alike.
"""

import argparse
import os
import shutil
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks import read_works as works
from benchmarks.fresh_process import Measurement, Preparation, measured_afresh
from benchmarks.read_buckets import Site, bytes_needed, make_site
from benchmarks.slow_store import LATENCY_MS, MIB_PER_SECOND, slow_store
from benchmarks.thread_profile import ThreadProfile

SECTIONS = ("raw", "file", "scan", "two", "entry", "random")
THREADS = (1, 4, 8, 16, 32)

Best = dict[str, Measurement[int]]


def say(what: str, goal: str, value: str, ratio: str = "") -> None:
    print(f"{what:<44} {goal:<26} {value:<84} {ratio}", flush=True)


def bulk(site: Site, sections: Sequence[str], threads: Sequence[int]) -> dict[str, Preparation[int]]:
    """Return all works that read much, by name, baselines first."""
    found: dict[str, Preparation[int]] = {f"raw {n}": partial(works.raw_parts, site, n) for n in threads}
    if "raw" in sections:
        found["s3fs"] = partial(works.s3fs_parts, site, 16)
        found["store"] = partial(works.store_parts, site, 16)
    if "raw" in sections or "file" in sections:
        found["raw open"] = partial(works.raw_open, site)
    if "file" in sections or "two" in sections:
        found["file"] = partial(works.file_by_readinto, site)
    if "file" in sections:
        found["file, read"] = partial(works.file_by_read, site)
    if "two" in sections:
        found["two"] = partial(works.two_readers, site)
    if "scan" in sections:
        found["scan"] = partial(works.scan, site)
        found["scan, table"] = partial(works.scan_to_table, site)
    return found


def best_of(runs: int, site: Site, preparations: dict[str, Preparation[int]]) -> Best:
    """Measure each as often, in turn, and keep the quickest."""
    best: Best = {}
    for _ in range(runs):
        for name, prepare in preparations.items():
            one = measured_afresh(site.store, prepare)
            print(f"  {name}: {one.seconds:.2f} s, others {one.others_cpu / one.seconds:.1f} CPUs", file=sys.stderr)
            if name not in best or one.seconds < best[name].seconds:
                best[name] = one
    return best


def rate(one: Measurement[int]) -> float:
    """Return MiB/s."""
    return one.value / one.seconds / 2**20


def described(one: Measurement[int]) -> str:
    gigabytes = one.value / 2**30
    return (
        f"{rate(one):5.0f} MiB/s; CPU s/GiB {one.client_cpu / gigabytes:.2f} + store {one.server_cpu / gigabytes:.2f}; "
        f"{one.stats.at_once} at once; {one.peak_memory >> 20} MiB; others {one.others_cpu / one.seconds:.1f} CPUs"
    )


def show_bulk(site: Site, best: Best) -> None:
    """Print what was measured of the works that read much."""
    counts = [name for name in best if name.startswith("raw ") and name != "raw open"]
    for name in counts:
        say(f"obstore get_range, 8 MiB parts, {name[4:]} threads", "", described(best[name]))
    if "raw open" in best:
        say("s3fs open().read()", "", described(best["raw open"]))
    raw = max(rate(best[name]) for name in counts)
    for name, what, goal in (
        ("s3fs", "s3fs cat_file, the same, 16 threads", 0),
        ("store", "our store, the same, 16 threads", 0.95),
        ("file", "ledger://entries, readinto of 8 MiB", 0.9),
        ("file, read", "ledger://entries, read of 8 MiB", 0.9),
        ("scan", "scan to Arrow batches", 0.8),
        ("scan, table", "scan to one Arrow table", 0.8),
    ):
        if name in best:
            say(what, f">= {goal} x best raw", described(best[name]), f"{rate(best[name]) / raw:.2f}")
    if "raw open" in best and "file" in best:
        one, plain = best["file"], best["raw open"]
        say("the same", ">= 8 x s3fs open().read()", "", f"{rate(one) / rate(plain):.1f}")
        extra = (one.stats.bytes / site.large.size - 1) * 100
        say("extra bytes of that", "<= 3 %", f"{extra:.2f} % in {one.stats.requests} requests")
    if "two" in best:
        say(
            "two readers, far apart",
            ">= 0.9 x one reader",
            described(best["two"]),
            f"{rate(best['two']) / rate(best['file']):.2f}",
        )


def entry_by_id(site: Site) -> None:
    """Print what single entries cost."""
    found = measured_afresh(site.store, partial(works.visits, site)).value
    for what, goal, of in (
        ("entry by id, cold", "its block up to there", [each.cold for each in found]),
        ("second visit nearby", "1 request, <= 0.4 MiB", [each.nearby for each in found]),
        ("the same again", "1 request, <= 64 KiB", [each.cached for each in found]),
    ):
        requests, sizes, times = [v.requests for v in of], [v.bytes / 1024 for v in of], [v.seconds * 1e3 for v in of]
        say(
            what,
            goal,
            f"requests {statistics.median(requests):g}, worst {max(requests)}; KiB {statistics.median(sizes):.0f}, "
            f"worst {max(sizes):.0f}; ms {statistics.median(times):.1f}, worst {max(times):.1f}",
        )


def random_entries(runs: int, site: Site) -> None:
    """Print what many random entries by several threads cost, against GETs of the size that they ask for."""
    for what, learned in (("cold", False), ("after a pass over the ledger", True)):
        prepare = partial(works.random_entries, site, learned=learned)
        first = measured_afresh(site.store, prepare)
        asked = first.stats
        size = asked.bytes // asked.requests if asked.requests else 64 << 10
        best = best_of(
            runs,
            site,
            {
                "ours": prepare,
                "s3fs": partial(works.raw_random, site, size),
                "http": partial(works.raw_random_http, site, size),
            },
        )
        ours, s3fs, http = (best[name].value / best[name].seconds for name in ("ours", "s3fs", "http"))
        say(
            f"1,000 random entries, {works.RANDOM_THREADS} threads, {what}",
            ">= 0.8 x GETs so large",
            f"{ours:.0f} /s in {asked.requests} requests of {size >> 10} KiB; GETs: s3fs {s3fs:.0f} /s, plain HTTP {http:.0f} /s",
            f"{ours / s3fs:.2f} {ours / http:.2f}",
        )


def profile(site: Site, sections: Sequence[str]) -> None:
    """Print where the subjects of the sections spend their time; in processes of their own, one after the other."""
    subjects: dict[str, tuple[str, Callable[[], Callable[[], object]]]] = {
        "raw 16": ("raw", partial(works.raw_parts, site, 16)),
        "file": ("file", partial(works.file_by_readinto, site)),
        "two": ("two", partial(works.two_readers, site)),
        "scan": ("scan", partial(works.scan, site)),
        "entry": ("entry", partial(works.visits, site)),
        "random": ("random", partial(works.random_entries, site, learned=False)),
    }
    for name, (section, prepare) in subjects.items():
        if section not in sections:
            continue
        one = measured_afresh(site.store, partial(_profiled, prepare))
        print(f"{name}: {one.seconds:.2f} s; store {one.server_cpu:.2f} s of the processor; {one.stats}", flush=True)


def _profiled(prepare: Preparation[object]) -> Callable[[], None]:
    work = prepare()

    def profiled() -> None:
        with ThreadProfile() as found:
            work()
        found.show()
        sys.stdout.flush()

    return profiled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="of which the best is told")
    parser.add_argument("--only", nargs="*", choices=SECTIONS, metavar="|".join(SECTIONS))
    parser.add_argument("--threads", nargs="*", type=int, default=THREADS, help="of the raw baseline")
    parser.add_argument("--megabytes", type=int, default=512, help="of the large ledger, and of the topic")
    parser.add_argument("--profile", action="store_true", help="tell instead where the time goes")
    given = parser.parse_args()
    # Ended from outside, it still takes its gigabyte of buckets with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sections = given.only or SECTIONS
    sizes = (given.megabytes << 20, 8, given.megabytes << 17)
    folder = Path(tempfile.mkdtemp(prefix="ledgerfs-bench-read-"))
    try:
        if shutil.disk_usage(folder).free < bytes_needed(*sizes):
            print(f"{folder}: {bytes_needed(*sizes) >> 20} MiB of free space are needed", file=sys.stderr)
            raise SystemExit(2)
        buckets = folder / "buckets"
        buckets.mkdir()
        with slow_store(buckets, folder) as store:
            site = make_site(buckets, store, *sizes)
            print(
                f"{site.large.entries:,} messages in one ledger of {site.large.size >> 20} MiB; {site.topic_entries:,} in 8 ledgers; "
                f"{LATENCY_MS} ms, {MIB_PER_SECOND} MiB/s a connection; {len(os.sched_getaffinity(0))} cores"
            )
            if given.profile:
                profile(site, sections)
                return
            say("what", "goal", "measured", "ratio")
            if set(sections) & {"raw", "file", "scan", "two"}:
                show_bulk(site, best_of(given.runs, site, bulk(site, sections, given.threads)))
            if "entry" in sections:
                entry_by_id(site)
            if "random" in sections:
                random_entries(given.runs, site)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
