"""Functions that run in a forked child of this process."""

import os
import signal
from collections.abc import Callable


def status_in_child(function: Callable[[], object], seconds: int = 60) -> int:
    """Fork, run ``function`` in the child, and return its exit status: 0, 1 after an exception, -SIGALRM when it hung."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        status = 1
        try:
            function()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
