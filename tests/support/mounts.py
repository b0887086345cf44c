"""Mounts for tests: each in a process of its own, at a folder of the test's, and gone at the end, however that comes about."""

import errno
import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.forked import Piped
from tests.support.waiting import wait_until

Constants = Mapping[str, Any]
"""Values of constants of the product by ``module.NAME``."""

_SERVER = "tests.support.mount_server:serve"

PATIENCE = 300.0
"""Seconds after which something hangs."""

PATIENT = {"config_kwargs": {"read_timeout": 240, "connect_timeout": 240}}
"""Options of S3 with which a store that is only slow is waited for."""


@dataclass
class Mount:
    """A bucket that is mounted, and the process that serves it."""

    path: Path
    log_file: Path
    process: Piped
    _asking: threading.Lock = field(default_factory=threading.Lock)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> list[str]:
        """What was logged, line by line."""
        return self.log_file.read_text().splitlines() if self.log_file.exists() else []

    def ask(self, what: str) -> Any:
        """Have the process ``refresh``, replace ``constants``, have other ``patience`` with the store, or only report its ``stats``."""
        with self._asking:
            self.process.stdin.write(what.encode() + b"\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())

    @contextmanager
    def impatient(self, seconds: float) -> Iterator[None]:
        """Have the process of a faulty store give up soon what hangs."""
        self.ask(f"patience {seconds}")
        try:
            yield
        finally:
            self.ask("patience")

    @contextmanager
    def with_constants(self, constants: Constants) -> Iterator[None]:
        """Have the process use other values of constants."""
        self.ask(f"constants {json.dumps(constants)}")
        try:
            yield
        finally:
            self.ask("constants {}")

    def requests(self) -> int:
        """Return how many requests the store got."""
        return int(self.ask("stats")["requests"])

    def open_paths(self) -> list[str]:
        """Return what is open."""
        return list(self.ask("stats")["open"])

    def wait_until_all_is_closed(self) -> None:
        """See to it that no file stays open. The kernel tells of a ``close`` after it has returned, and of a mapping's end."""
        wait_until(lambda: not self.open_paths(), PATIENCE, self.open_paths)

    def run(self, command: str, code: int | None = 0) -> "subprocess.CompletedProcess[bytes]":
        """Run a shell command in the mount; ``code`` None is for any but 0."""
        environment = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.path,
            capture_output=True,
            env=environment,
            timeout=2 * PATIENCE,
            check=False,
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
    is_faulty: bool = False,
    parts: bool = False,
    scan_options: Mapping[str, Any] | None = None,
    constants: Constants | None = None,
    fuse: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Mount]:
    """Mount a bucket at ``folder/mnt``.

    Parameters
    ----------
    is_faulty : bool
        Whether the store fails: requests are given up after some tries, and not by the clock, unless the mount is `Mount.impatient`.
    parts : bool
        Whether objects are read in small parts, as in the fault matrix.
    constants : mapping
        Constants of the product that have other values in the process, for all of its time.
    fuse : mapping
        Options of FUSE.
    options
        Those of `MountOptions`.

    """
    assert Path("/dev/fuse").exists(), (
        "this machine has no /dev/fuse: mounts cannot be tested here (a container needs --device /dev/fuse)"
    )
    path, log_file = folder / "mnt", folder / "mount.log"
    path.mkdir(parents=True, exist_ok=True)
    cache = cache_dir or folder / "cache"
    asked = {
        "path": str(path), "url": url, "storage_options": dict(storage_options or {}), "cache_dir": str(cache), "parts": parts,
        "is_faulty": is_faulty, "constants": dict(constants or {}),
        "scan_options": dict(scan_options or {}), "options": options, "log": str(log_file),
        "fuse": dict(fuse or {}),
    }  # fmt: skip
    # What libfuse and a crash say is shown when a test fails.
    with Piped("mount", (json.dumps(asked),), {**os.environ, **(env or {})}, 2, _SERVER) as process:
        made = Mount(path, log_file, process)
        try:
            _wait_until_it_answers(made)
            yield made
        finally:
            code = _end(made)
        assert not is_mounted(path), "a stale mount is left"
        assert code == 0, (code, made.log)


def _wait_until_it_answers(made: Mount) -> None:
    def answers() -> bool:
        assert made.process.poll() is None, (made.process.poll(), made.log)
        return is_mounted(made.path) and made.path.is_dir()

    wait_until(answers, PATIENCE, lambda: ("it does not answer", made.log))


def _end(made: Mount) -> int:
    """Unmount, even what is in use or dead, and see the process end; return its exit code."""
    subprocess.run(["fusermount3", "-u", str(made.path)], capture_output=True, check=False)
    if is_mounted(made.path):
        subprocess.run(["fusermount3", "-u", "-z", str(made.path)], capture_output=True, check=False)
    return made.process.wait(PATIENCE)


def number_of(done: "subprocess.CompletedProcess[bytes]") -> int:
    """Return the errno that a tool of coreutils told of."""
    said = done.stderr.decode()
    found = [number for number in errno.errorcode if said.rstrip().splitlines()[-1].endswith(os.strerror(number))]
    assert found, said
    return found[0]
