"""Disks of bookies: finding the entries of logs, reading by id, and offloading, against plain reads and copies of the same bytes.

``python -m benchmarks.bookie_disks`` makes the logs of one bookie in ``/dev/shm``: of ledgers that were written at once, sorted between
flushes, as a bookie sorts them. The baselines read the logs with ``os.preadv``, and copy them with ``shutil.copyfile``.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ledgerfs import open_bucket
from ledgerfs.writing.copy_ledgers import copy_ledgers
from ledgerfs_cluster.disks.entries import EntryReading
from ledgerfs_cluster.disks.index import KeptTables, index_disks
from ledgerfs_cluster.disks.reading import empty_bytes, read_into
from ledgerfs_cluster.disks.scanning import WINDOW_BYTES
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from ledgerfs_cluster.formats.bookkeeper.location_table import build_location_table
from ledgerfs_cluster.formats.bookkeeper.stored_entries import build_stored_entry
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    build_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.zookeeper.node import Node
from tests.cluster.support.bookie_disks import MadeLedger, make_disk, write_dump, write_log
from tests.cluster.support.live_clusters import messages

LEDGERS, FLUSH = 16, 64
LOG_BYTES = 256 << 20
ORDERS = "public/default/persistent/orders"


def make(folder: Path, mib: int, size: int) -> Path:
    """Write logs of so many MiB of entries, and the metadata; return the dump's path."""
    current = make_disk(folder / "disk")
    payload = messages(1, size=max(1, size - 60))[0]
    each = (mib << 20) // (LEDGERS * len(payload))
    digest, log, number, held = Digest(), [], 0, 0
    for start in range(0, each, FLUSH):
        for ledger in range(LEDGERS):
            for entry in range(start, min(each, start + FLUSH)):
                log.append(build_stored_entry(ledger, entry, entry - 1, (entry + 1) * len(payload), payload, digest))
                held += len(log[-1])
        if held > LOG_BYTES:
            write_log(current, number, log)
            number, held, log = number + 1, 0, []
    write_log(current, number, log)
    ledgers = [MadeLedger(ledger, payloads=[payload] * each, managed_ledger=ORDERS) for ledger in range(LEDGERS)]
    infos = tuple(LedgerInfo(ledger, each, each * len(payload), 5, None) for ledger in range(LEDGERS))
    path = managed_ledger_path(ORDERS)
    listed = Node(path, build_managed_ledger_info(ManagedLedgerInfo(infos)), 1, 1, 1, 0)
    write_dump(folder / "dump", [*(one.zookeeper_node() for one in ledgers), listed])
    return folder / "dump"


def seconds(work: Callable[[], object], rounds: int) -> float:
    """Return the least time of some rounds, s."""
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def read_all(logs: list[Path]) -> None:
    """Read the logs, window by window."""
    buffer = empty_bytes(WINDOW_BYTES)
    for path in logs:
        descriptor = os.open(path, os.O_RDONLY)
        at = 0
        while count := read_into(descriptor, buffer, at):
            at += count
        os.close(descriptor)


def scan_all(folder: Path, cache: Path) -> None:
    """Find all entries; nothing is kept of before."""
    shutil.rmtree(cache, ignore_errors=True)
    index_disks([str(folder / "disk")], KeptTables(str(cache)))


def measure(mib: int, size: int, rounds: int) -> None:
    """Make a disk, and print what takes how long."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as made:
        folder, cache = Path(made), Path(made) / "cache"
        dump = make(folder, mib, size)
        logs = sorted((folder / "disk" / "current").glob("*.log"))
        total = sum(path.stat().st_size for path in logs)
        plain = seconds(lambda: read_all(logs), rounds)
        scan = seconds(lambda: scan_all(folder, cache), rounds)
        index = index_disks([str(folder / "disk")], KeptTables(str(cache)))
        entries = sum(one.table.entries for one in index.files)
        kept = sum(len(build_location_table(one.table)) for one in index.files)
        known = seconds(lambda: index_disks([str(folder / "disk")], KeptTables(str(cache))), rounds)
        print(f"{size} B entries, {total >> 20} MiB in {len(logs)} logs, {entries:,} entries")
        print(
            f"  scan      {total / scan / 1e9:6.2f} GB/s  {1e9 * scan / entries:5.0f} ns an entry  {plain / scan:.2f} of plain reads"
        )
        print(f"  again     {known * 1e3:6.1f} ms  by kept tables of {kept / entries:.1f} B an entry")
        reading = EntryReading(index, 3, Digest(), size)
        ids = np.random.default_rng(1).integers(0, int(index.last_entries()[3]), 2000).tolist()
        by_id = seconds(lambda: [reading.read(index.copies(3, one, one)) for one in ids], rounds)
        print(f"  by id     {1e6 * by_id / len(ids):6.0f} µs  one read each")
        bucket = open_bucket(f"bookies://{folder}/disk", {"metadata": str(dump)}, cache_dir=str(cache))
        bucket.load_catalog()
        ledgers = [bucket.reader(ref) for ref in bucket.catalog.refs()]
        read = seconds(lambda: [sum(len(b) for b in one.batches(0, one.last_entry)) for one in ledgers], rounds)
        print(f"  read      {total / read / 2**20:6.0f} MiB/s  {plain / read:.2f} of plain reads")
        target = folder / "tier"
        copy = seconds(lambda: copy_once(bucket, target), rounds)
        copied = seconds(lambda: [shutil.copyfile(path, folder / "copy") for path in logs], rounds)
        print(f"  offload   {total / copy / 2**20:6.0f} MiB/s  {copied / copy:.2f} of cp, with every copy read back")


def copy_once(bucket: object, target: Path) -> None:
    """Offload all of it into an empty folder."""
    shutil.rmtree(target, ignore_errors=True)
    report = copy_ledgers(bucket, open_bucket(target))  # type: ignore[arg-type]
    assert report.copied == LEDGERS, report


def main() -> None:
    """Measure entries of 100 B, 1 KiB and 100 KiB."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    for size in (100, 1024, 100 << 10):
        measure(given.mib if size > 100 else given.mib // 4, size, given.rounds)


if __name__ == "__main__":
    main()
