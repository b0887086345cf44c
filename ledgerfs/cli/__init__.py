"""The command ``ledgerfs``: thin commands that call the layers above and print with rich."""

import atexit
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit with its code.

    The commands are imported inside, so that even an early Ctrl-C leaves no traceback.
    """
    signal_handler = signal.getsignal(signal.SIGINT)
    if signal_handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    # With colorama installed numba would end what a terminal gets of every command with an escape sequence.
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
    try:
        from ledgerfs.cli.group import run

        code = run()
    except KeyboardInterrupt:
        _end_at_once()
    sys.exit(code)


def _end_at_once() -> NoReturn:
    """Exit as Python does, except that requests under way in threads end with the process: a store that hangs would be waited for."""
    os.write(2, b"interrupted\n")
    with suppress(OSError, ValueError):  # of a reader that is gone, or a closed stream: nobody is there to be told
        sys.stdout.flush()
    atexit._run_exitfuncs()  # noqa: SLF001  (there is no public way)
    os._exit(EXIT_INTERRUPTED)


def _interrupt(*_: object) -> None:
    """End in order at the first Ctrl-C, at once at the second."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))
    raise KeyboardInterrupt
