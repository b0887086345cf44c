"""Ctrl-C at a moment at which a test wants it."""

import signal
import sys
import threading
from types import CodeType

from tests.support.waiting import wait_until


def interrupt_in(code: CodeType) -> None:
    """Send Ctrl-C to the main thread as soon as it is in a function, or in what that calls; called in another thread."""
    wait_until(lambda: _is_in(code), 300)
    signal.raise_signal(signal.SIGINT)


def _is_in(code: CodeType) -> bool:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None
