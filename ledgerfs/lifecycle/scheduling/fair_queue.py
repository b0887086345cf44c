"""Turns of topics: deficit round robin over bytes, in which every topic with work gets as much as every other, however large its ledgers.

Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995) gives each topic a quantum of bytes in each round, and lets it send while that
lasts. There a packet has to wait until enough is saved for it, which for a ledger of many quanta would be many empty rounds. Here a topic
whose account is not empty is served, and goes into debt by what is really sent (as in surplus round robin); it has its next turn in the
round that pays the debt. Rounds in which nobody has a turn are left out, so what a pick costs does not grow with debts.

Each topic has a *place*: bytes charged, counted from the place where the round was when it came. Round ``n`` begins at ``n * quantum``,
and a topic has a turn in the round that its place is in. So among topics that had work all the time, places differ by less than a quantum
and the largest ledger, which is the bound of fairness: what one was sent more than another since both began.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from ledgerfs.storage.fork_lock import ForkLock

_LEAST_PARTS = 64
"""As what part of a quantum a ledger counts at least: requests and sets of lists cost something, too."""


@dataclass(frozen=True, slots=True)
class Work:
    """A ledger that is to be transferred, and its bytes."""

    topic: str
    ledger_id: int
    size: int


@dataclass(slots=True)
class _Topic:
    """A topic with work that waits or is under way.

    Attributes
    ----------
    place
        Where it is, bytes; what is under way counts as it is charged.
    work
        What waits, the oldest first.
    under_way
        What was taken and is not done.
    owed
        Bytes of that which are not charged yet.
    charged
        What was charged since something was taken while nothing was under way, and by ``taken`` ledgers.
    is_queued
        Whether it is in a round, or among those that rest or wait for a slot.

    """

    place: int
    work: deque[Work] = field(default_factory=deque)
    under_way: list[Work] = field(default_factory=list)
    owed: int = 0
    charged: int = 0
    taken: int = 0
    rests_until: float = 0.0
    is_queued: bool = False


class FairQueue:
    """Ledgers of topics, taken in fair turns. Safe in threads: it has a lock of its own.

    A pick costs the same however many topics wait, but for the logarithm of how many different rounds they wait for.

    Parameters
    ----------
    quantum_bytes
        What a topic gets in a round. Small ones are fairer in the short run: best about as large as most ledgers.
    most_per_topic
        How many ledgers of a topic are under way at once.
    large_bytes, most_large
        Ledgers of at least so many bytes are under way on at most so many workers at once, even if others then have nothing to do, so that
        some are always soon free for small ones; None for no such limit. One topic alone never has more than ``most_per_topic``.

    """

    __slots__ = (
        "_aside",
        "_busy",
        "_heap",
        "_large",
        "_large_bytes",
        "_lock",
        "_most_large",
        "_most_per_topic",
        "_now",
        "_quantum",
        "_resting",
        "_round",
        "_rounds",
        "_topics",
        "_turns",
        "_waiting",
        "_waiting_bytes",
    )

    def __init__(
        self,
        quantum_bytes: int,
        *,
        most_per_topic: int = 1,
        large_bytes: int | None = None,
        most_large: int | None = None,
    ) -> None:
        self._quantum = max(1, quantum_bytes)
        self._most_per_topic = most_per_topic
        self._large_bytes = large_bytes
        self._most_large = most_large
        self._lock = ForkLock()
        self._topics: dict[str, _Topic] = {}
        self._busy: dict[str, _Topic] = {}
        self._now = 0.0
        self._round = 0
        self._turns: deque[str] = deque()
        self._rounds: dict[int, deque[str]] = {}
        self._heap: list[int] = []
        self._resting: list[tuple[float, str]] = []
        self._aside: deque[str] = deque()
        self._large = 0
        self._waiting = 0
        self._waiting_bytes = 0

    def __len__(self) -> int:
        """How many ledgers wait; those under way do not."""
        return self._waiting

    @property
    def backlog_bytes(self) -> int:
        """Bytes of ledgers that wait, and what is not charged of those under way."""
        with self._lock:
            return self._waiting_bytes + sum(one.owed for one in self._busy.values())

    def has(self, topic: str) -> bool:
        """Whether ledgers of a topic wait."""
        found = self._topics.get(topic)
        return found is not None and bool(found.work)

    def replace(self, work: Mapping[str, Sequence[Work]]) -> None:
        """Have other work wait, of each topic in the order in which it is to be done: the oldest first.

        What is under way goes on, and is left out of the new work. Topics keep their places, also those without work that are in
        debt. Debts end when `take` finds that nothing is left to do at all: nobody waits for them then.
        """
        with self._lock:
            for name, topic in list(self._topics.items()):
                if name not in work:
                    topic.work.clear()
                    self._forget_if_idle(name, topic)
            self._keep_queued(work)
            self._waiting = self._waiting_bytes = 0
            for name, some in work.items():
                self._set_work(name, some)

    def take(self, now: float) -> Work | None:
        """Return the next ledger, which is under way from then on; None if nothing can begin now.

        ``now`` is a time in seconds of any clock, the one of `rest`.
        """
        with self._lock:
            self._now = now
            self._wake(now)
            while self._turns or self._next_round():
                name = self._turns.popleft()
                topic = self._topics.get(name)
                if topic is None:
                    continue
                topic.is_queued = False
                if not topic.work or len(topic.under_way) >= self._most_per_topic:
                    self._forget_if_idle(name, topic)
                elif topic.rests_until > now:
                    topic.is_queued = True
                    heappush(self._resting, (topic.rests_until, name))
                elif self._round_of(topic) > self._round:
                    self._queue(name, topic)
                elif self._is_large(topic.work[0]) and self._large == self._most_large:
                    topic.is_queued = True
                    self._aside.append(name)
                else:
                    return self._begin(name, topic)
            if not self._busy and not self._waiting:
                self._forgive(now)
            return None

    def take_another(self, topic: str, now: float) -> Work | None:
        """Return one more ledger of a topic, for who does several of it together, if its turn goes on; else None."""
        with self._lock:
            found = self._topics.get(topic)
            if found is None or not found.work or found.rests_until > now or self._round_of(found) > self._round:
                return None
            if self._is_large(found.work[0]) and self._large == self._most_large:
                return None
            return self._begin(topic, found)

    def charge(self, topic: str, size: int) -> None:
        """Charge bytes that were transferred; also those that were sent again, or of an attempt that failed."""
        with self._lock:
            found = self._topics.get(topic)
            if found is not None:
                found.place += size
                found.charged += size
                found.owed = max(0, found.owed - size)

    def done(self, work: Work) -> None:
        """End a ledger, however it ended: what is to be tried again has to be in new work.

        Raises `KeyError` for one that is not under way.
        """
        with self._lock:
            topic = self._topics[work.topic]
            if work not in topic.under_way:
                raise KeyError(work)
            topic.under_way.remove(work)
            topic.owed = min(topic.owed, sum(one.size for one in topic.under_way))
            if not topic.under_way:
                del self._busy[work.topic]
                self._settle(topic)
            if self._is_large(work):
                self._large -= 1
                self._readmit()
            if topic.work and not topic.is_queued:
                self._queue(work.topic, topic)
            else:
                self._forget_if_idle(work.topic, topic)

    def rest(self, topic: str, until: float) -> None:
        """Begin nothing more of a topic before a time, such as when its list may be set again; later work is meant, too."""
        with self._lock:
            found = self._topics.setdefault(topic, _Topic(self._round * self._quantum))
            found.rests_until = until

    @property
    def wakes_at(self) -> float | None:
        """When the first topic that rests may be served again; None if none that had its turn does."""
        with self._lock:
            return self._resting[0][0] if self._resting else None

    # With the lock.

    def _set_work(self, name: str, some: Iterable[Work]) -> None:
        floor = self._round * self._quantum
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = _Topic(floor)
        if not topic.work and not topic.under_way:
            # Who had nothing to do has not saved for later, but debts stay.
            topic.place = max(topic.place, floor)
        begun = {one.ledger_id for one in topic.under_way}
        topic.work = deque(one for one in some if one.ledger_id not in begun)
        self._waiting += len(topic.work)
        self._waiting_bytes += sum(one.size for one in topic.work)
        if not topic.work:
            self._forget_if_idle(name, topic)
        elif not topic.is_queued and len(topic.under_way) < self._most_per_topic:
            self._queue(name, topic)

    def _keep_queued(self, work: Mapping[str, Sequence[Work]]) -> None:
        """Leave in the queues who has work, where they are: many plans without a pick leave nothing behind."""
        # Who waited for the slot of a large ledger may have a small one now.
        self._turns.extendleft(reversed(self._aside))
        self._aside.clear()
        for topic in self._topics.values():
            topic.is_queued = False
        for some in (self._turns, *self._rounds.values()):
            kept = [name for name in some if self._stays_queued(name, work)]
            some.clear()
            some.extend(kept)
        self._resting = [one for one in self._resting if self._stays_queued(one[1], work)]
        self._resting.sort()

    def _stays_queued(self, name: str, work: Mapping[str, Sequence[Work]]) -> bool:
        topic = self._topics.get(name)
        if topic is None or topic.is_queued or not work.get(name):
            return False
        topic.is_queued = True
        return True

    def _wake(self, now: float) -> None:
        while self._resting and self._resting[0][0] <= now:
            _, name = heappop(self._resting)
            topic = self._topics.get(name)
            if topic is not None:
                self._queue(name, topic)

    def _next_round(self) -> bool:
        """Go on to the next round in which somebody has a turn; whether there is one."""
        while self._heap:
            self._round = heappop(self._heap)
            self._turns = self._rounds.pop(self._round)
            if self._turns:
                return True
        return False

    def _round_of(self, topic: _Topic) -> int:
        """Return in which round a topic has its next turn: what is under way counts as if it were charged."""
        return max(self._round, (topic.place + topic.owed) // self._quantum)

    def _queue(self, name: str, topic: _Topic) -> None:
        topic.is_queued = True
        found = self._round_of(topic)
        if found == self._round:
            self._turns.append(name)
            return
        if found not in self._rounds:
            self._rounds[found] = deque()
            heappush(self._heap, found)
        self._rounds[found].append(name)

    def _begin(self, name: str, topic: _Topic) -> Work:
        if not topic.under_way:
            topic.owed = topic.charged = topic.taken = 0
        work = topic.work.popleft()
        topic.under_way.append(work)
        self._busy[work.topic] = topic
        topic.owed += work.size
        topic.taken += 1
        self._waiting -= 1
        self._waiting_bytes -= work.size
        self._large += self._is_large(work)
        if topic.work and not topic.is_queued and len(topic.under_way) < self._most_per_topic:
            self._queue(name, topic)
        return work

    def _settle(self, topic: _Topic) -> None:
        """Charge what ledgers cost at least, and take away what a topic that was slow by itself would have saved beyond a quantum."""
        least = topic.taken * max(1, self._quantum // _LEAST_PARTS)
        topic.place = max(topic.place + max(0, least - topic.charged), (self._round - 1) * self._quantum)

    def _readmit(self) -> None:
        """Give the topic that waits longest for the slot of a large ledger its turn."""
        while self._aside:
            name = self._aside.popleft()
            topic = self._topics.get(name)
            if topic is not None and topic.work:
                self._turns.appendleft(name)
                return
            if topic is not None:
                topic.is_queued = False
                self._forget_if_idle(name, topic)

    def _forgive(self, now: float) -> None:
        self._topics = {name: one for name, one in self._topics.items() if one.rests_until > now}
        for one in self._topics.values():
            one.place = min(one.place, self._round * self._quantum)

    def _is_large(self, work: Work) -> bool:
        return self._most_large is not None and self._large_bytes is not None and work.size >= self._large_bytes

    def _forget_if_idle(self, name: str, topic: _Topic) -> None:
        """Forget a topic that has nothing to do, owes nothing and does not rest; where it is queued nothing is found of it then."""
        is_idle = not topic.work and not topic.under_way and topic.rests_until <= self._now
        if is_idle and topic.place <= self._round * self._quantum:
            self._topics.pop(name, None)
