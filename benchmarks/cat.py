"""``ledgerfs cat`` of a whole ledger from a local folder, against ``cat`` of the data object itself.

The times are of whole processes, Python's start included; the memory is the peak of the process.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from ledgerfs.bucket.opening import open_bucket
from tests.support.ledgers import offload

_BLOCK = 64 << 20


def make_bucket(folder: Path, megabytes: int) -> str:
    """Write one ledger of 64 KiB entries; return the path of its file in the tree."""
    entry = bytes(range(256)) * 256
    made = offload([entry] * (megabytes * 16), 7, block_size=_BLOCK)
    for key, data in made.objects.items():
        (folder / key).write_bytes(data)
    return "entries/public/default/orders/7.entries"


def make_bucket_apart(folder: Path, megabytes: int) -> str:
    """Write the bucket in another process: a child's peak memory counts that of the process which it was forked from."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(make_bucket, folder, megabytes).result()


def run(command: list[str], reader: list[str] | None) -> tuple[float, int]:
    """Return wall seconds, and the peak memory in MiB, of a command whose output ``reader`` reads, or nobody."""
    start = time.perf_counter()
    with Path("/dev/null").open("wb") as nowhere:
        writer = subprocess.Popen(command, stdout=nowhere if reader is None else subprocess.PIPE)
        if reader is not None:
            subprocess.run(reader, stdin=writer.stdout, stdout=nowhere, check=True)
        _, status, usage = os.wait4(writer.pid, 0)
    if status:
        raise SystemExit(f"{command} failed")
    return time.perf_counter() - start, usage.ru_maxrss >> 10


def compare(raw: list[str], ours: list[str], reader: list[str] | None) -> None:
    """Print five runs of each, in turn: the ratio of the best ones, and the largest memory."""
    runs = [(run(raw, reader), run(ours, reader)) for _ in range(5)]
    best_raw, best_ours = min(one[0] for one, _ in runs), min(one[0] for _, one in runs)
    memory = max(one[1] for _, one in runs)
    print(
        f"{'into /dev/null' if reader is None else 'into a pipe':>14}: cat of the data object {best_raw:.2f} s, "
        f"ledgerfs cat {best_ours:.2f} s; ratio of speeds {best_raw / best_ours:.2f} (goal: at least 0.5); "
        f"memory {memory} MiB (goal: at most 128)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=2048)
    megabytes = parser.parse_args().megabytes
    folder = Path(tempfile.mkdtemp(prefix="ledgerfs-bench-"))
    try:
        path = make_bucket_apart(folder, megabytes)
        (ref,) = open_bucket(str(folder)).catalog.refs()
        command = str(Path(sys.executable).parent / "ledgerfs")
        raw, ours = ["cat", str(folder / ref.key)], [command, "cat", str(folder), path]
        print(f"one ledger of {megabytes} MiB")
        compare(raw, ours, ["wc", "-c"])
        compare(raw, ours, None)
        small = [command, "cat", str(folder), "info/public/default/orders/7.json"]
        print(f"start-up alone (a file of 1 KiB): {min(run(small, None)[0] for _ in range(5)):.2f} s")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
