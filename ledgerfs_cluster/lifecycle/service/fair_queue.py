"""A queue of ledgers for each topic; the next ledger is of the topic that has had the fewest bytes.

This is start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996). A ledger counts with all its bytes when it is taken. A topic that is
new, or had nothing to do, begins with as many bytes as the topic that was taken last: it has saved nothing for later.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from threading import Lock

_LEAST_BYTES = 1 << 20
"""What a ledger counts at least: requests and sets of lists cost something, too."""


@dataclass(frozen=True, slots=True)
class Work:
    """A ledger that is to be transferred, and its bytes."""

    topic: str
    ledger_id: int
    size: int


class FairQueue:
    """Ledgers of topics, taken in fair turns, one of each topic at a time. Safe in threads."""

    __slots__ = ("_heap", "_level", "_lock", "_numbers", "_turns", "_under_way", "_work")

    def __init__(self) -> None:
        self._lock = Lock()
        # {topic: ledgers that wait, the oldest first}
        self._work: dict[str, deque[Work]] = {}
        self._under_way: dict[str, Work] = {}
        # {topic: its bytes, and among equal ones the order in which topics came}
        self._turns: dict[str, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, str]] = []
        self._level = 0
        self._numbers = count()

    @property
    def is_idle(self) -> bool:
        """Whether no ledger waits, and none is under way."""
        with self._lock:
            return not self._under_way and not any(self._work.values())

    def has(self, topic: str) -> bool:
        """Whether a ledger of a topic waits, or is under way."""
        return bool(self._work.get(topic)) or topic in self._under_way

    def under_way(self, topic: str) -> Work | None:
        """Return the ledger of a topic that was taken and is not done."""
        return self._under_way.get(topic)

    def replace(self, work: Mapping[str, Sequence[Work]]) -> None:
        """Have other work wait, of each topic in the order in which it is to be done: the oldest first.

        What is under way goes on, and is left out of the new work. Topics keep their turns.
        """
        with self._lock:
            self._turns = {
                name: turn
                for name, turn in self._turns.items()
                if turn[0] > self._level or name in self._under_way or self._work.get(name)
            }
            begun = {(one.topic, one.ledger_id) for one in self._under_way.values()}
            self._work = {
                name: deque(one for one in some if (name, one.ledger_id) not in begun) for name, some in work.items()
            }
            self._heap = []
            for name in self._work:
                self._queue(name)

    def take(self) -> Work | None:
        """Return the next ledger, which is under way from then on; None if nothing can begin now."""
        with self._lock:
            if not self._heap:
                return None
            had, number, name = heappop(self._heap)
            self._level = max(self._level, had)
            work = self._under_way[name] = self._work[name].popleft()
            self._turns[name] = had + max(_LEAST_BYTES, work.size), number
            return work

    def done(self, work: Work) -> None:
        """End a ledger, however it ended: what is to be tried again has to be in new work.

        Raises `KeyError` for one that is not under way.
        """
        with self._lock:
            del self._under_way[work.topic]
            self._queue(work.topic)

    def _queue(self, name: str) -> None:
        """Have a topic wait for its turn, if it has work and none under way; with the lock."""
        if self._work.get(name) and name not in self._under_way:
            had, number = self._turns.get(name) or (0, next(self._numbers))
            # A topic that was slow by itself has not saved for later.
            self._turns[name] = turn = max(self._level, had), number
            heappush(self._heap, (*turn, name))
