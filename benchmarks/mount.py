"""The bucket as a mounted directory, read by ordinary tools, against what the same machine does without it in the same run.

Remote is the slow S3 store of `benchmarks.read`. Each mount is a process of its own, new for each measurement of remote reads, with an
empty cache; subjects and baselines take turns, and the best of several runs is told, and behind it the median and the worst.
"""

import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks import read_works as works
from benchmarks.catalog import make_bucket
from benchmarks.fresh_process import measured_afresh
from benchmarks.mount_process import CONSTANT_NAME, Mount, Served, mounted
from benchmarks.read_buckets import LEDGER_ID, Site, bytes_needed, make_site
from benchmarks.slow_store import LATENCY_MS, MIB_PER_SECOND, slow_store
from tests.support.ledgers import offload

SECTIONS = ("cat", "local", "ls", "find", "four", "random")
READERS = 4
TOPIC = "entries/public/default/orders"
LS_LEDGERS, FIND_LEDGERS = 10_000, 100_000
RANDOM_READS = 20_000


def say(what: str, goal: str, value: str, ratio: str = "") -> None:
    print(f"{what:<52} {goal:<28} {value:<64} {ratio}", flush=True)


@dataclass(slots=True)
class Times:
    """Seconds of several runs of one thing."""

    seconds: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """The one that others disturbed least."""
        return min(self.seconds)

    def rate(self, size: int) -> str:
        """Return MiB/s."""
        return " / ".join(f"{size / one / 2**20:.0f}" for one in self._told) + " MiB/s"

    def __str__(self) -> str:
        return " / ".join(f"{one:.2f}" for one in self._told) + " s"

    @property
    def _told(self) -> tuple[float, float, float]:
        return self.best, statistics.median(self.seconds), max(self.seconds)


def timed(command: Sequence[str | Path]) -> float:
    """Run a tool whose output nobody wants; return its seconds."""
    start = time.perf_counter()
    subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def cat(*files: Path) -> float:
    """Read files at the same time, each with a ``cat``: to /dev/null, which GNU cat feeds as anything else, by read and write."""
    start = time.perf_counter()
    readers = [subprocess.Popen(["cat", str(file)], stdout=subprocess.DEVNULL) for file in files]
    for reader in readers:
        if reader.wait():
            raise SystemExit(f"{reader.args!r} failed")
    return time.perf_counter() - start


def forget_pages(file: Path) -> None:
    """Have the kernel drop what it keeps of a file, so that the next reader asks the mount."""
    descriptor = os.open(file, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


class Places:
    """Folders for mounts and their caches, each used once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0

    @contextmanager
    def mounted(self, served: Served) -> Iterator[Mount]:
        """Mount somewhere new, with an empty cache."""
        self._number += 1
        with mounted(served, self._folder / f"mount-{self._number}") as mount:
            yield mount


def remote_cat(site: Site, places: Places, served: Served, path: str) -> float:
    """Read the large ledger once through a new mount, and see that all of it came from the store."""
    with places.mounted(served) as mount:
        file = mount.path / path
        assert file.stat().st_size >= site.large.records_size
        site.store.take_stats()
        seconds = cat(file)
        assert site.store.take_stats().bytes >= site.large.records_size
    return seconds


def compare_remote(runs: int, site: Site, places: Places) -> None:
    """Print `cat` of a remote ledger against ``ledger://``, and against fsspec's way to mount it."""
    options, path = site.store.options, site.large.tree_path
    through_fsspec = Served("fsspec", "ledger://::s3://large", {"s3": options})
    subjects: dict[str, Callable[[], float]] = {
        "fsspec": lambda: measured_afresh(site.store, partial(works.file_by_readinto, site)).seconds,
        "cat": lambda: remote_cat(site, places, Served("ledgerfs", "s3://large", options), path),
        "fuse": lambda: remote_cat(site, places, through_fsspec, path),
        "fuse, s3": lambda: remote_cat(site, places, Served("fsspec", "s3://large", options), site.large.key),
    }
    found = in_turn(runs, subjects)
    size, ours = site.large.records_size, found["cat"].best
    say("ledger:// through fsspec, readinto of 8 MiB", "", found["fsspec"].rate(size))
    say(
        "cat of the same ledger from the mount",
        ">= 0.9 x ledger://",
        found["cat"].rate(size),
        f"{found['fsspec'].best / ours:.2f}",
    )
    for name, what in (("fuse", "fsspec.fuse on ledger://"), ("fuse, s3", "fsspec.fuse on s3://, the data object")):
        say(f"cat from {what}", ">= 5 x that", found[name].rate(size), f"{found[name].best / ours:.1f}")


def in_turn(runs: int, subjects: dict[str, Callable[[], float]]) -> dict[str, Times]:
    """Time each as often, in turn."""
    found: dict[str, Times] = defaultdict(Times)
    for _ in range(runs):
        for name, measure in subjects.items():
            found[name].seconds.append(measure())
            print(f"  {name}: {found[name].seconds[-1]:.2f} s, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return found


def compare_local(runs: int, site: Site, places: Places, buckets: Path) -> None:
    """Print `cat` of a ledger in a local folder, all of it in the kernel's cache, against a mount that has nothing to do."""
    size = site.large.records_size
    with ExitStack() as stack:
        constant = stack.enter_context(places.mounted(Served("constant", size=size)))
        ours = stack.enter_context(places.mounted(Served("ledgerfs", f"file://{buckets}/large")))
        files = {"constant": constant.path / CONSTANT_NAME, "ours": ours.path / site.large.tree_path}

        def once(file: Path) -> float:
            forget_pages(file)
            return cat(file)

        cat(*files.values())
        found = in_turn(2 * runs + 1, {name: partial(once, file) for name, file in files.items()})
    say("a constant handler of the binding, cat", "", found["constant"].rate(size))
    ratio = found["constant"].best / found["ours"].best
    say("cat of a ledger in a local folder, warm", ">= 0.5 x constant", found["ours"].rate(size), f"{ratio:.2f}")


def compare_four(runs: int, site: Site, places: Places) -> None:
    """Print what four readers of four ledgers get together, against one reader of one ledger as large as all of them."""
    options = site.store.options

    def four() -> float:
        with places.mounted(Served("ledgerfs", "s3://topic", options)) as mount:
            files = [mount.path / TOPIC / f"{LEDGER_ID + i}.entries" for i in range(READERS)]
            sizes = sum(file.stat().st_size for file in files)
            # As many bytes, but for some per mille of block ends.
            return cat(*files) * site.large.records_size / sizes

    one = partial(remote_cat, site, places, Served("ledgerfs", "s3://large", options), site.large.tree_path)
    found = in_turn(runs, {"one": one, "four": four})
    size = site.large.records_size
    say("one cat", "", found["one"].rate(size))
    ratio = found["one"].best / found["four"].best
    say(f"{READERS} cats at once, together", ">= 0.9 x one", found["four"].rate(size), f"{ratio:.2f}")


def compare_ls(runs: int, site: Site, places: Places, buckets: Path) -> None:
    """Print ``ls -l`` of one topic by a new mount, its start and the listing of the bucket included, against the catalog alone."""
    bucket = buckets / "ls"
    bucket.mkdir()
    for i in range(LS_LEDGERS):
        for key, data in offload([b"x" * 64], i, uuid=i).objects.items():
            (bucket / key).write_bytes(data)
    served = Served("ledgerfs", "s3://ls", site.store.options)
    again = Times()

    def catalog() -> float:
        with tempfile.TemporaryDirectory(prefix="ledgerfs-bench-") as cache:
            code = "from ledgerfs.bucket.bucket import open_bucket; open_bucket(*eval(input())).catalog"
            start = time.perf_counter()
            environment = {**os.environ, "LEDGERFS_CACHE_DIR": cache}
            given = repr((served.url, served.options))
            subprocess.run([sys.executable, "-c", code], input=given, text=True, env=environment, check=True)
            return time.perf_counter() - start

    def ls() -> float:
        start = time.perf_counter()
        with places.mounted(served) as mount:
            timed(["ls", "-l", mount.path / TOPIC])
            first = time.perf_counter() - start
            again.seconds.extend(timed(["ls", "-l", mount.path / TOPIC]) for _ in range(3))
        return first

    found = in_turn(runs, {"catalog": catalog, "ls": ls})
    say(f"catalog of {LS_LEDGERS:,} ledgers, alone", "", str(found["catalog"]))
    ratio = found["ls"].best / found["catalog"].best
    say("mount and ls -l of that topic", "<= 1.2 x catalog", str(found["ls"]), f"{ratio:.2f}")
    say("ls -l again", "<= 0.3 s", str(again))


def compare_find(runs: int, places: Places, folder: Path) -> None:
    """Print ``find`` over many ledgers in a local folder, and what the mount's process takes of memory."""
    import fsspec

    bucket = folder / "find"
    bucket.mkdir()
    make_bucket(fsspec.filesystem("file"), str(bucket), FIND_LEDGERS)
    with places.mounted(Served("ledgerfs", f"file://{bucket}")) as mount:
        listing = mount.peak_memory
        found = in_turn(
            runs,
            {
                "find": lambda: timed(["find", mount.path / "entries"]),
                "ls -lR": lambda: timed(["ls", "-lR", mount.path / "entries"]),
            },
        )
        memory = mount.peak_memory
    say(f"find over {FIND_LEDGERS:,} ledgers in 1,000 topics", "<= 10 s", str(found["find"]))
    say("ls -lR over the same", "", str(found["ls -lR"]))
    say("memory of the mount's process", "<= 400 MiB", f"{memory >> 20} MiB, {listing >> 20} of it to list the bucket")
    shutil.rmtree(bucket)


def random_reads(runs: int, site: Site, places: Places) -> None:
    """Print what random reads of a ledger that was read before ask of the store.

    Its bytes are with the kernel then. Where that drops some pages by itself meanwhile, they are asked for again, a page at a time.
    """
    asked: list[int] = []
    times = Times()
    with places.mounted(Served("ledgerfs", "s3://large", site.store.options)) as mount:
        file = mount.path / site.large.tree_path
        for _ in range(runs):
            cat(file)
            site.store.take_stats()
            start = time.perf_counter()
            program = _read_at_random(file)
            times.seconds.append(time.perf_counter() - start)
            asked.append(site.store.take_stats().requests)
    told = f"{min(asked)} / {statistics.median(asked):g} / {max(asked)} requests"
    say(f"{RANDOM_READS:,} random reads of 4 KiB by {program}, warm", "no request", f"{told}; {times}")


def _read_at_random(file: Path) -> str:
    """Read with fio, or where there is none, with Python; return which. fio is told not to drop what the kernel keeps first."""
    if shutil.which("fio") is not None:
        what = [f"--filename={file}", "--rw=randread", "--bs=4k", f"--number_ios={RANDOM_READS}", "--invalidate=0"]
        timed(["fio", "--name=random", "--readonly", "--ioengine=psync", *what])
        return "fio"
    size, rnd = file.stat().st_size, random.Random(4)
    with file.open("rb", buffering=0) as source:
        for _ in range(RANDOM_READS):
            os.pread(source.fileno(), 4096, rnd.randrange(size >> 12) << 12)
    return "Python (no fio here)"


def measure(given: argparse.Namespace, sections: Sequence[str], folder: Path) -> None:
    """Make the buckets, and measure what was asked for."""
    buckets = folder / "buckets"
    buckets.mkdir()
    places = Places(folder)
    with slow_store(buckets, folder) as store:
        site = make_site(buckets, store, given.megabytes << 20, READERS, (given.megabytes << 20) // READERS)
        print(
            f"one ledger of {site.large.size >> 20} MiB, {READERS} of a quarter; {LATENCY_MS} ms, {MIB_PER_SECOND} MiB/s a connection; "
            f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}; best / median / worst of {given.runs}"
        )
        say("what", "goal", "measured", "ratio")
        works_of: dict[str, Callable[[], None]] = {
            "cat": lambda: compare_remote(given.runs, site, places),
            "local": lambda: compare_local(given.runs, site, places, buckets),
            "four": lambda: compare_four(given.runs, site, places),
            "random": lambda: random_reads(given.runs, site, places),
            "ls": lambda: compare_ls(given.runs, site, places, buckets),
            "find": lambda: compare_find(given.runs, places, folder),
        }
        for name, work in works_of.items():
            if name in sections:
                work()
    print(f"load {os.getloadavg()[0]:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=SECTIONS, metavar="|".join(SECTIONS))
    parser.add_argument("--megabytes", type=int, default=512, help="of the large ledger, and of the four together")
    given = parser.parse_args()
    # Ended from outside, it still takes its buckets and mounts with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    size = given.megabytes << 20
    folder = Path(tempfile.mkdtemp(prefix="ledgerfs-bench-mount-"))
    try:
        if shutil.disk_usage(folder).free < bytes_needed(size, READERS, size // READERS):
            print(f"{folder}: more than {given.megabytes >> 9} GiB of free space are needed", file=sys.stderr)
            raise SystemExit(2)
        measure(given, given.only or SECTIONS, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
