"""Turns of what reads much before it deletes.

What was read is acted upon soon, other topics have their turns, and a service that is to end does not wait.
"""

import time
from collections.abc import Callable, Iterator

from ledgerfs.errors import StoppedError
from ledgerfs.formats.records import EntryBatch

_MOST_S = 30.0


class Turn:
    """How long one act may go on reading before it acts upon what it has read, and leaves the rest. For one thread.

    A ledger that is begun is read to its end, so something is done in each turn.

    Parameters
    ----------
    is_stopping
        Whether nothing is to be begun any more.
    most_s
        Seconds after which no other ledger is begun.
    clock
        Seconds that only grow.

    """

    __slots__ = ("_began_s", "_clock", "_has_read", "_is_stopping", "_most_s")

    def __init__(
        self,
        is_stopping: Callable[[], bool] = lambda: False,
        most_s: float = _MOST_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_stopping = is_stopping
        self._most_s = most_s
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """Begin another one."""
        self._began_s = self._clock()
        self._has_read = False

    @property
    def is_stopping(self) -> bool:
        """Whether nothing is to be begun any more."""
        return self._is_stopping()

    @property
    def is_over(self) -> bool:
        """Whether no other ledger is to be begun."""
        return self._has_read and self._clock() - self._began_s >= self._most_s

    def require_going(self) -> None:
        """Raise `StoppedError` if nothing is to be begun any more."""
        if self._is_stopping():
            raise StoppedError("the service is ending: nothing more is begun")

    def watched(self, batches: Iterator[EntryBatch]) -> Iterator[EntryBatch]:
        """Yield what is read in this turn; raises as `require_going` in between."""
        for batch in batches:
            self._has_read = True
            self.require_going()
            yield batch
