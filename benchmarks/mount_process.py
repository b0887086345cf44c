"""Mounts to measure, each in a process of its own, and gone when the measurement ends, however it ends.

``python -m benchmarks.mount_process`` is such a process: ledgerfs, fsspec's own ``fsspec.fuse``, or the least that Python can mount.
"""

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_STARTING = 180.0
_ENDING = 10.0

CONSTANT_NAME = "constant"


@dataclass(frozen=True, slots=True)
class Served:
    """What a process is to mount.

    Attributes
    ----------
    kind
        ``ledgerfs``, ``fsspec``, or ``constant``: one file of ``size`` bytes, read by a handler that does nothing.
    url, options
        The bucket; for ``fsspec`` any URL that fsspec knows.
    cache
        Folder for what is kept on disk.

    """

    kind: str
    url: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    cache: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount that answers."""

    path: Path
    pid: int

    @property
    def peak_memory(self) -> int:
        """The most memory that its process ever had, bytes."""
        status = dict(line.split(":", 1) for line in Path(f"/proc/{self.pid}/status").read_text().splitlines())
        return int(status["VmHWM"].split()[0]) << 10

    @property
    def cpu_seconds(self) -> float:
        """What its process has used of the processor."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def mounted(served: Served, folder: Path) -> Iterator[Mount]:
    """Mount at ``folder``, which must be empty; unmount and end the process at the end."""
    folder.mkdir(exist_ok=True)
    given = {name: getattr(served, name) for name in Served.__slots__}
    command = [sys.executable, "-m", "benchmarks.mount_process", json.dumps(given), str(folder)]
    environment = {**os.environ, "LEDGERFS_CACHE_DIR": served.cache or f"{folder}.cache"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    try:
        _wait_for(folder, process)
        _widen_readahead(folder)
        yield Mount(folder, process.pid)
    finally:
        _end(folder, process)


def _widen_readahead(folder: Path) -> None:
    """Give every mount what ledgerfs gives itself, so that the kernel asks all alike."""
    from ledgerfs.fuse_mount.binding import widen_readahead

    widen_readahead(str(folder))


def _wait_for(folder: Path, process: "subprocess.Popen[bytes]") -> None:
    began = time.monotonic()
    while not _is_mounted(folder):
        if process.poll() is not None or time.monotonic() - began > _STARTING:
            raise SystemExit(f"{process.args!r} does not mount")
        time.sleep(0.002)


def _is_mounted(folder: Path) -> bool:
    return any(line.split()[1] == str(folder) for line in Path("/proc/mounts").read_text().splitlines())


def _end(folder: Path, process: "subprocess.Popen[bytes]") -> None:
    if _is_mounted(folder) and subprocess.run(["fusermount3", "-u", str(folder)], check=False).returncode:
        subprocess.run(["fusermount3", "-u", "-z", str(folder)], check=False)
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _serve_ledgerfs(served: Served, mountpoint: str) -> None:
    from ledgerfs.bucket.opening import open_bucket
    from ledgerfs.fuse_mount import binding
    from ledgerfs.fuse_mount.operations import MountedBucket, MountOptions

    bucket = open_bucket(served.url, served.options, cache_dir=served.cache or None)
    # No refresh in the middle of a measurement.
    binding.serve(
        MountedBucket(bucket, MountOptions(refresh_seconds=3600)), mountpoint, served.url, {"max_idle_threads": 10}
    )


def _serve_fsspec(served: Served, mountpoint: str) -> None:
    """Mount as fsspec does, with its defaults; the module that it wants is dead, and mfusepy does as well in its place."""
    import mfusepy

    sys.modules["fuse"] = mfusepy
    import fsspec
    import fsspec.fuse

    fs, path = fsspec.core.url_to_fs(served.url, **served.options)
    fsspec.fuse.run(fs, path, mountpoint)


def _serve_constant(served: Served, mountpoint: str) -> None:
    """Mount with the binding and the options of ledgerfs a file whose bytes are there already: nothing in Python is quicker."""
    import mfusepy

    from ledgerfs.fuse_mount import binding
    from ledgerfs.fuse_mount.attributes import BLOCK_BYTES

    data = bytes(binding.READ_BYTES)
    root = {"st_mode": 0o40555, "st_nlink": 2}
    file = {"st_mode": 0o100444, "st_nlink": 1, "st_size": served.size, "st_blksize": BLOCK_BYTES}

    class Constant:
        use_ns = True
        init_with_config = binding.Callbacks.init_with_config

        def getattr(self, path: str, _: int | None = None) -> dict[str, int]:
            return root if path == "/" else file

        def open(self, *_: object) -> int:
            return 1

        def read(self, _: str, size: int, offset: int, _handle: int) -> bytes:
            # Not a new object: the whole where the whole is asked for.
            return data[: min(size, served.size - offset)]

    options = {
        "max_read": binding.READ_BYTES,
        "auto_cache": True,
        "attr_timeout": 3600,
        "entry_timeout": 3600,
        "ro": True,
    }
    mfusepy.FUSE(Constant(), mountpoint, foreground=True, **options)


def main() -> None:
    # The kernel ends it with whoever started it, however that ends.
    ctypes.CDLL(None).prctl(1, 15)
    os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")
    served = Served(**json.loads(sys.argv[1]))
    serve = {"ledgerfs": _serve_ledgerfs, "fsspec": _serve_fsspec, "constant": _serve_constant}[served.kind]
    serve(served, sys.argv[2])


if __name__ == "__main__":
    main()
