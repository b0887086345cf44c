"""Share concurrent work: one thread does it, the others wait for its result."""

import os
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future
from typing import Generic, TypeVar

from ledgerfs.forked import ForkLock

Result = TypeVar("Result")


class SingleFlight(Generic[Result]):
    """Calls under way, by key. A forked child does not wait for calls of its parent."""

    __slots__ = ("_flights", "_lock")

    def __init__(self) -> None:
        self._flights: dict[tuple[int, Hashable], Future[Result]] = {}
        self._lock = ForkLock()

    def run(self, key: Hashable, work: Callable[[], Result]) -> Result:
        """Return the result of ``work``, called by this thread or an earlier one; raises its error in all of them."""
        name = (os.getpid(), key)
        while True:
            with self._lock:
                flight = self._flights.get(name)
                if flight is None:
                    ours = self._flights[name] = Future()
            if flight is None:
                return self._fly(name, ours, work)
            try:
                return flight.result()
            except CancelledError:
                # Ctrl-C interrupted the other thread, which must not end this one.
                continue

    def _fly(self, name: tuple[int, Hashable], flight: "Future[Result]", work: Callable[[], Result]) -> Result:
        try:
            result = work()
        except Exception as error:
            flight.set_exception(error)
            raise
        except BaseException:
            flight.cancel()
            raise
        else:
            flight.set_result(result)
            return result
        finally:
            with self._lock:
                del self._flights[name]
