"""A queue of ledgers for each topic; the next ledger is of the topic that was sent the fewest bytes.

This is start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996). A topic's *place* is how many bytes were sent of it, and a new topic
begins at the place of the ledger that was taken last: no topic saves turns for later. Of two topics that always have
work, neither is sent more than the other by more than the largest ledger of each.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf
from threading import Lock

_LEAST_BYTES = 1 << 20
"""What a ledger counts at least: requests and sets of lists cost something, too."""


@dataclass(frozen=True, slots=True)
class Work:
    """A ledger that is to be transferred, and its bytes."""

    topic: str
    ledger_id: int
    size: int


@dataclass(slots=True)
class _Topic:
    """A topic with work, or with a place ahead of others.

    Attributes
    ----------
    place, number
        By which it waits: bytes, and among equal places the order in which topics came.
    work
        Ledgers that wait, the oldest first.
    under_way
        The ledger that was taken and is not done.
    sent
        Bytes of it that were sent.

    """

    place: int
    number: int
    work: deque[Work] = field(default_factory=deque)
    under_way: Work | None = None
    sent: int = 0


class FairQueue:
    """Ledgers of topics, taken in fair turns, one of each topic at a time. Safe in threads.

    Parameters
    ----------
    large_bytes, most_large
        At most so many ledgers of at least so many bytes are under way at once, even if other workers then have nothing to do, so that some
        are always soon free for small ones.

    """

    __slots__ = (
        "_large",
        "_large_bytes",
        "_level",
        "_lock",
        "_most_large",
        "_numbers",
        "_small",
        "_topics",
        "_under_way",
        "_waiting",
    )

    def __init__(self, *, large_bytes: float = inf, most_large: int = 0) -> None:
        self._large_bytes = large_bytes
        self._most_large = most_large
        self._lock = Lock()
        self._topics: dict[str, _Topic] = {}
        self._small: list[tuple[int, int, str]] = []
        self._large: list[tuple[int, int, str]] = []
        self._under_way: set[Work] = set()
        self._level = 0
        self._numbers = count()
        self._waiting = 0

    def __len__(self) -> int:
        """How many ledgers wait; those under way do not."""
        return self._waiting

    def has(self, topic: str) -> bool:
        """Whether ledgers of a topic wait."""
        found = self._topics.get(topic)
        return found is not None and bool(found.work)

    def replace(self, work: Mapping[str, Sequence[Work]]) -> None:
        """Have other work wait, of each topic in the order in which it is to be done: the oldest first.

        What is under way goes on, and is left out of the new work. Topics keep their places, unless nothing was left to do.
        """
        with self._lock:
            is_idle = not self._waiting and not self._under_way
            self._topics = {} if is_idle else {name: one for name, one in self._topics.items() if self._counts(one)}
            for topic in self._topics.values():
                topic.work.clear()
            self._small, self._large, self._waiting = [], [], 0
            for name, some in work.items():
                topic = self._topics.get(name) or _Topic(self._level, next(self._numbers))
                begun = topic.under_way
                topic.work.extend(one for one in some if begun is None or one.ledger_id != begun.ledger_id)
                self._waiting += len(topic.work)
                if topic.work:
                    self._topics[name] = topic
                    self._queue(topic)

    def take(self) -> Work | None:
        """Return the next ledger, which is under way from then on; None if nothing can begin now."""
        with self._lock:
            is_full = sum(map(self._is_large, self._under_way)) >= self._most_large
            heap = min((one for one in (self._small, [] if is_full else self._large) if one), default=None)
            if heap is None:
                return None
            place, _, name = heappop(heap)
            self._level = max(self._level, place)
            topic = self._topics[name]
            work = topic.under_way = topic.work.popleft()
            topic.sent = 0
            self._under_way.add(work)
            self._waiting -= 1
            return work

    def charge(self, topic: str, size: int) -> None:
        """Charge bytes that were transferred; also those that were sent again, or of an attempt that failed."""
        with self._lock:
            self._topics[topic].sent += size

    def done(self, work: Work) -> None:
        """End a ledger, however it ended: what is to be tried again has to be in new work.

        Raises `KeyError` for one that is not under way.
        """
        with self._lock:
            self._under_way.remove(work)
            topic = self._topics[work.topic]
            topic.under_way = None
            # A topic that was slow by itself has not saved for later.
            topic.place = max(self._level, topic.place + max(_LEAST_BYTES, topic.sent))
            self._queue(topic)

    # With the lock.

    def _counts(self, topic: _Topic) -> bool:
        """Whether a topic has work, or is ahead of a new one."""
        return bool(topic.work) or topic.under_way is not None or topic.place > self._level

    def _queue(self, topic: _Topic) -> None:
        if topic.work and topic.under_way is None:
            heap = self._large if self._is_large(topic.work[0]) else self._small
            heappush(heap, (topic.place, topic.number, topic.work[0].topic))

    def _is_large(self, work: Work) -> bool:
        return work.size >= self._large_bytes
