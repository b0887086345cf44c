"""A word on the one slow start: kernels are compiled when they are first used after an installation, and kept on disk."""

import sys
from typing import Any

from ledgerfs.cli.output import say


def announce_compiling() -> None:
    """Say once on standard error, if that is a terminal, when a kernel is really being compiled; a kernel from disk is no news.

    Imports numba: for commands that are about to use it.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        return
    from numba.core.event import Listener, register

    class Announcer(Listener):
        is_said = False

        def on_start(self, event: Any) -> None:  # noqa: ANN401, ARG002
            if not self.is_said:
                self.is_said = True
                say("compiling kernels: some seconds, in the first run after an installation only")

        def on_end(self, event: Any) -> None:  # noqa: ANN401
            """Say nothing: the work goes on."""

    register("numba:compile", Announcer())  # type: ignore[no-untyped-call]
