"""A mount under mixed load for some minutes: ``python -m benchmarks.mount_soak --minutes 10``.

Readers, listers and writers use a mounted bucket at once, and compare every byte. Afterwards the process behind the mount must hold no more
files, threads and memory than after its first minute, and nothing may be left mounted, or begun in the bucket.
"""

import argparse
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.writing.sources import RecordFile
from ledgerfs.writing.write import Wanted, write_ledger

TOPIC = "public/default/soak"
LEDGERS = 40
BLOCK = 5 << 20

SETTLED = 0.2
"""Share of the time after which what the process holds is what it may hold."""

MORE_MEMORY = 48 << 20
MORE_DESCRIPTORS, MORE_THREADS = 8, 4

DAEMON = """
import sys
from ledgerfs.fuse_mount.binding import serve
from ledgerfs.fuse_mount.operations import MountedBucket, MountOptions
from ledgerfs.bucket.opening import open_bucket
url, path, cache = sys.argv[1:]
bucket = open_bucket(url, cache_dir=cache)
serve(MountedBucket(bucket, MountOptions(is_writable=True, refresh_seconds=2, block_size=5 << 20)), path, url, {})
"""


def file_of_records(seed: int, entries: int) -> bytes:
    """Return records of any bytes."""
    source = random.Random(seed)
    made = bytearray()
    for entry in range(entries):
        data = source.randbytes(source.randrange(8000))
        made += struct.pack(">iq", len(data), entry) + data
    return bytes(made)


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds of the machine."""

    memory: int
    descriptors: int
    threads: int

    @classmethod
    def by(cls, pid: int) -> "Held":
        """Look it up."""
        process = Path(f"/proc/{pid}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        return cls(int(status["VmRSS"].split()[0]) << 10, len(list((process / "fd").iterdir())), int(status["Threads"]))

    def __str__(self) -> str:
        return f"{self.memory >> 20} MiB, {self.descriptors} descriptors, {self.threads} threads"


@dataclass
class Soak:
    """The load, and what it has done so far."""

    mountpoint: Path
    files: dict[str, bytes]
    until: float
    done: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def run(self, work: Callable[[random.Random], None], seed: int) -> None:
        """Do one kind of work over and over."""
        source = random.Random(seed)
        while time.monotonic() < self.until and not self.errors:
            try:
                work(source)
                self.done[work.__name__] += 1
            except Exception as error:  # noqa: BLE001  (told at the end)
                self.errors.append(f"{work.__name__}: {error!r}")

    def read(self, source: random.Random) -> None:
        """Read a file, front to end or anywhere."""
        name = source.choice(list(self.files))
        data = self.files[name]
        with (self.mountpoint / name).open("rb", buffering=0) as file:
            if source.random() < 0.3:
                require(b"".join(iter(lambda: file.read(1 << 20), b"")) == data, name)
            for _ in range(20):
                at = source.randrange(len(data))
                require(os.pread(file.fileno(), 50_000, at) == data[at : at + 50_000], f"{name} at {at}")
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def look(self, source: random.Random) -> None:
        """List and stat; ledgers that are written come and go."""
        known = {Path(name).name for name in self.files}
        found = {entry.name: entry for entry in os.scandir(self.mountpoint / "entries" / TOPIC)}
        require(known <= set(found), "a ledger is missing")
        for name in source.sample(sorted(known), 5):
            require(found[name].stat().st_size == len(self.files[f"entries/{TOPIC}/{name}"]), name)
        os.statvfs(self.mountpoint)
        require(not (self.mountpoint / "entries" / TOPIC / "0.entries").exists(), "what is not there is")
        subprocess.run(["find", self.mountpoint, "-name", "*.parquet"], check=True, stdout=subprocess.DEVNULL)

    def write(self, source: random.Random) -> None:
        """Copy a ledger in, read it, remove it; or give it up on the way."""
        number = source.randrange(1000, 1 << 40)
        path = self.mountpoint / "entries" / TOPIC / f"{number}.entries"
        data = file_of_records(number, source.randrange(1, 2500))
        if source.random() < 0.3:
            writer = subprocess.Popen(["sh", "-c", f'exec cat > "{path}"'], stdin=subprocess.PIPE, bufsize=0)
            if writer.stdin is None:
                raise AssertionError
            writer.stdin.write(data[: len(data) // 2])
            writer.kill()
            writer.wait()
            writer.stdin.close()
            require(not path.exists(), "a killed writer's ledger")
            return
        path.write_bytes(data)
        require(path.read_bytes() == data, "what was written")
        path.unlink()
        require(not path.exists(), "what was removed")


def require(is_so: bool, what: str) -> None:
    if not is_so:
        raise AssertionError(what)


@contextmanager
def mounted(url: str, folder: Path) -> Iterator[tuple[Path, int]]:
    """Mount the bucket in a process of its own; nothing is left mounted."""
    path = folder / "mnt"
    path.mkdir()
    # It says of each file that is given up why.
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", DAEMON, url, str(path), str(folder / "cache")], stderr=log)
    try:
        end = time.monotonic() + 60
        while not path.is_mount():
            require(process.poll() is None and time.monotonic() < end, "it does not mount")
            time.sleep(0.02)
        yield path, process.pid
    finally:
        subprocess.run(["fusermount3", "-u", "-z", str(path)], check=False)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    require(process.returncode == 0, f"the mount ended with {process.returncode}")
    require(not path.is_mount(), "a stale mount is left")


def make_bucket(bucket: Bucket) -> dict[str, bytes]:
    """Fill a bucket; returns the files and their bytes."""
    made = {}
    for number in range(1, LEDGERS + 1):
        data = file_of_records(number, 50 * number)
        write_ledger(
            bucket,
            Wanted(TOPIC.replace("/soak", "/persistent/soak"), number, block_size=BLOCK),
            RecordFile.of("soak", data),
        )
        made[f"entries/{TOPIC}/{number}.entries"] = data
    return made


def soak(folder: Path, minutes: float) -> None:
    """Run it, and raise `AssertionError` for what it finds."""
    (folder / "bucket").mkdir()
    url = f"file://{folder}/bucket"
    files = make_bucket(open_bucket(url))
    with mounted(url, folder) as (path, pid):
        began = time.monotonic()
        load = Soak(path, files, began + 60 * minutes)
        works = [load.read, load.read, load.read, load.look, load.look, load.write, load.write]
        threads = [threading.Thread(target=load.run, args=(work, seed)) for seed, work in enumerate(works)]
        for thread in threads:
            thread.start()
        settled: Held | None = None
        while any(thread.is_alive() for thread in threads):
            time.sleep(min(15.0, minutes * 6))
            held = Held.by(pid)
            if settled is None and time.monotonic() - began > 60 * minutes * SETTLED:
                settled = held
            print(f"{time.monotonic() - began:6.0f} s  {held}  {dict(load.done)}", flush=True)
        held = Held.by(pid)
        require(not load.errors, str(load.errors))
        require(len(load.done) == 3, f"not all was done: {load.done}")
        settled = settled or held
        require(held.descriptors <= settled.descriptors + MORE_DESCRIPTORS, f"descriptors: {settled}, then {held}")
        require(held.threads <= settled.threads + MORE_THREADS, f"threads: {settled}, then {held}")
        require(held.memory <= settled.memory + MORE_MEMORY, f"memory: {settled}, then {held}")
    left = sorted(one.name for one in (folder / "bucket").iterdir())
    require(len(left) == 2 * LEDGERS, f"left in the bucket: {left}")
    print(f"fine: {settled}, then {held}; nothing left mounted or begun")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    minutes = parser.parse_args().minutes
    folder = Path(tempfile.mkdtemp(prefix="mt-soak-"))
    try:
        soak(folder, minutes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
