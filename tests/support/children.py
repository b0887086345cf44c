"""Functions that run in a forked child of this process."""

import gc
import os
import signal
import subprocess
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def fork() -> int:
    """Fork as `os.fork` does, without garbage that the child would have to drop.

    s3fs waits a tenth of a second for each file system that a child drops, since the thread that would end its session is the parent's; a
    process that has run thousands of tests has hundreds of these.
    """
    gc.collect()
    return os.fork()


def status_in_child(function: Callable[[], object], seconds: int = 300) -> int:
    """Fork, run ``function`` in the child, and return its exit status: 0, 1 after an exception, -SIGALRM when it hung."""
    child = fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        status = 1
        try:
            function()
            status = 0
        except BaseException:  # noqa: BLE001  (told, and no error of the parent's)
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def is_true_in_child(function: Callable[[], object], seconds: int = 300) -> bool:
    """Fork, and return whether ``function`` is true in the child, where it neither fails nor hangs."""

    def check() -> None:
        assert function()

    return status_in_child(check, seconds) == 0


def is_stopped(process: int) -> bool:
    """Whether all threads of a process are stopped, or have ended: `os.kill` returns before SIGSTOP has reached each of them."""
    try:
        stats = [path.read_text() for path in Path(f"/proc/{process}/task").glob("*/stat")]
    except (FileNotFoundError, ProcessLookupError):  # of a thread that has just ended
        return False
    return all(stat.rpartition(")")[2].split()[0] in "TZX" for stat in stats)


@contextmanager
def started(command: Sequence[Any], **options: Any) -> Iterator["subprocess.Popen[Any]"]:
    """Start a process, and kill it at the end if it goes on: a test that failed would wait for it for ever."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()
