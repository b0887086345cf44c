"""Mounts for tests: each in a process of its own, at a folder of the test's, and gone at the end, however that comes about."""

import errno
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledgerfs.storage.retries import TIMEOUT_VARIABLE
from tests.support.waiting import wait_until

STARTING = 60.0
ENDING = 60.0
CLOSING = 60.0


@dataclass
class Mount:
    """A bucket that is mounted, and the process that serves it."""

    path: Path
    log_file: Path
    process: "subprocess.Popen[str]"
    codes: set[int] = field(default_factory=lambda: {0})
    """With what the process may end."""
    _asking: threading.Lock = field(default_factory=threading.Lock)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> list[str]:
        """What was logged, line by line."""
        return self.log_file.read_text().splitlines() if self.log_file.exists() else []

    def ask(self, what: str) -> Any:
        """Have the process ``refresh``, set the store's ``timeout``, or only tell its ``stats``: of traffic, open files, threads."""
        with self._asking:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            self.process.stdin.write(what + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())

    @contextmanager
    def impatient(self, seconds: float) -> Iterator[None]:
        """Have the process give up soon what fails, for as long as the store does."""
        self.ask(f"timeout {seconds}")
        yield
        self.ask(f"timeout {os.environ[TIMEOUT_VARIABLE]}")

    def requests(self) -> int:
        """Return how many requests the store got."""
        return int(self.ask("stats")["requests"])

    def open_paths(self) -> list[str]:
        """Return what is open."""
        return list(self.ask("stats")["open"])

    def wait_until_all_is_closed(self) -> None:
        """See to it that no file stays open. The kernel tells of a ``close`` after it has returned, and of a mapping's end."""
        wait_until(lambda: not self.open_paths(), CLOSING, self.open_paths)

    def run(self, command: str, code: int | None = 0) -> "subprocess.CompletedProcess[bytes]":
        """Run a shell command in the mount; ``code`` None is for any but 0."""
        environment = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.path, capture_output=True, env=environment, timeout=100, check=False
        )
        assert (done.returncode != 0) if code is None else (done.returncode == code), (command, done, self.log)
        return done

    def output(self, command: str) -> str:
        return self.run(command).stdout.decode()


def is_mounted(path: Path) -> bool:
    """Whether something is mounted there, be it dead."""
    return any(line.split()[1] == str(path) for line in Path("/proc/mounts").read_text().splitlines())


@contextmanager
def mounted(
    folder: Path,
    url: str,
    storage_options: Mapping[str, Any] | None = None,
    *,
    cache_dir: Path | None = None,
    env: Mapping[str, str] | None = None,
    parts: bool = False,
    scan_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Mount]:
    """Mount a bucket at ``folder/mnt``; with small ``parts``, as in the fault matrix. ``options`` are those of `MountOptions`."""
    assert Path("/dev/fuse").exists(), (
        "this machine has no /dev/fuse: mounts cannot be tested here (a container needs --device /dev/fuse)"
    )
    path, log_file = folder / "mnt", folder / "mount.log"
    path.mkdir(parents=True, exist_ok=True)
    cache = cache_dir or folder / "cache"
    asked = {
        "path": str(path), "url": url, "storage_options": dict(storage_options or {}), "cache_dir": str(cache), "parts": parts,
        "scan_options": dict(scan_options or {}), "options": options, "log": str(log_file),
    }  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **(env or {})}
    # What libfuse and a crash say is shown when a test fails.
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.mounts", json.dumps(asked)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
        start_new_session=True,
    )
    made = Mount(path, log_file, process)
    try:
        _wait_until_it_answers(made)
        yield made
    finally:
        _end(made)
    assert not is_mounted(path), "a stale mount is left"
    assert process.returncode in made.codes, (process.returncode, made.log)


def _wait_until_it_answers(made: Mount) -> None:
    def answers() -> bool:
        assert made.process.poll() is None, (made.process.returncode, made.log)
        return is_mounted(made.path) and made.path.is_dir()

    wait_until(answers, STARTING, lambda: ("it does not answer", made.log))


def _end(made: Mount) -> None:
    """Unmount, even what is in use or dead, and see the process end."""
    end = time.monotonic() + ENDING
    subprocess.run(["fusermount3", "-u", str(made.path)], capture_output=True, check=False)
    if is_mounted(made.path):
        subprocess.run(["fusermount3", "-u", "-z", str(made.path)], capture_output=True, check=False)
    try:
        made.process.wait(max(0.1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        made.process.kill()
        made.process.wait()
    for pipe in (made.process.stdin, made.process.stdout):
        if pipe is not None:
            pipe.close()


def number_of(done: "subprocess.CompletedProcess[bytes]") -> int:
    """Return the errno that a tool of coreutils told of."""
    said = done.stderr.decode()
    found = [number for number in errno.errorcode if said.rstrip().splitlines()[-1].endswith(os.strerror(number))]
    assert found, said
    return found[0]


def _serve(asked: dict[str, Any]) -> None:
    import pytest

    from ledgerfs.bucket.opening import open_bucket
    from ledgerfs.fuse_mount.binding import serve
    from ledgerfs.fuse_mount.operations import MountedBucket, MountOptions
    from tests.support.matrix import small_parts

    if asked["parts"]:
        patch = pytest.MonkeyPatch()
        small_parts(patch)
        # The kernel asks again for what failed, and a busy machine lets it do so late.
        patch.setattr("ledgerfs.fuse_mount.error_numbers._SILENT_SECONDS", 120)
    logging.basicConfig(filename=asked["log"], format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    bucket = open_bucket(
        asked["url"], asked["storage_options"], cache_dir=asked["cache_dir"], scan_options=asked["scan_options"]
    )
    made = MountedBucket(bucket, MountOptions(**asked["options"]))
    threading.Thread(target=_answer, args=(made, bucket), daemon=True).start()
    serve(made, asked["path"], asked["url"], {})


def _answer(made: Any, bucket: Any) -> None:
    for line in sys.stdin:
        if line.strip() == "refresh":
            made.refresh()
        elif line.startswith("timeout "):
            os.environ[TIMEOUT_VARIABLE] = line.split()[1]
        traffic = bucket.stats()
        told = {
            "requests": traffic.requests,
            "bytes": traffic.bytes_received,
            "open": sorted(one.path for one in list(made._open.values())),
            "threads": threading.active_count(),
            "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        }
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
