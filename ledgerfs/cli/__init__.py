"""The command ``ledgerfs``: thin commands that call other packages and print with rich."""

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
    # If colorama is installed, numba would end the output of every command on a terminal with an escape sequence.
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
    if "spark" not in sys.argv:
        sys.meta_path.insert(0, _WithoutPandas())
    try:
        from ledgerfs.cli.group import run

        code = run()
    except KeyboardInterrupt:
        _end_at_once()
    sys.exit(code)


class _WithoutPandas:
    """Keeps pandas out of commands without a use for it: pyarrow would import it for its first array."""

    def find_spec(self, name: str, *_: object) -> None:
        """Refuse pandas; leave other modules to the other finders."""
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def _end_at_once() -> NoReturn:
    """Exit as Python does, but without waiting for the requests of other threads: a store may hang."""
    os.write(2, b"interrupted\n")
    with suppress(OSError, ValueError):  # the reader is gone or the stream closed: nothing to report to
        sys.stdout.flush()
    atexit._run_exitfuncs()  # noqa: SLF001  (no public function)
    os._exit(EXIT_INTERRUPTED)


def _interrupt(*_: object) -> None:
    """Stop in order at the first Ctrl-C, at once at the second."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))
    raise KeyboardInterrupt
