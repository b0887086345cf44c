"""What a bucket holds, as plain dictionaries: every ledger that was published and that nobody deleted, and the rows in it.

Nothing in here reads a bucket. States are kept, one after each change, so that what a reader saw can be compared with each moment that it
may have seen.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

Key = tuple[str, int]
"""Uuid and ledger id: the name of one copy of a ledger."""


@dataclass(frozen=True, slots=True)
class Written:
    """The schema that a value was written by.

    Attributes
    ----------
    kind
        Its name in `tests.model.schemas.KINDS`.
    version
        The number that the message names.
    home
        The bucket that the message was imported into; None for one of a cluster.

    """

    kind: str
    version: int
    home: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """A message that no other message equals; its bytes as text, and its publish time in ms since 1970 UTC."""

    value: str
    time_ms: int
    written: Written | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a chunked message, an entry of its own; ``row`` is the whole message."""

    row: Row
    number: int
    parts: int

    @property
    def payload(self) -> bytes:
        """The part's share of the message."""
        text = self.row.value.encode()
        size = -(-len(text) // self.parts)
        return text[self.number * size : (self.number + 1) * size]


Message = Row | Part


@dataclass(frozen=True, slots=True)
class Content:
    """What a ledger holds: its topic, and its messages in order."""

    topic: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """A ledger in a bucket, under one uuid.

    Attributes
    ----------
    last_entry, length
        As its index tells.
    has_data
        Whether its data object is there.
    layout
        The name of what it lies there as.

    """

    content: Content
    last_entry: int
    length: int
    has_data: bool = True
    layout: str = "pulsar_blob"


State = Mapping[Key, Copy]


@dataclass(slots=True)
class BucketModel:
    """One bucket, from its beginning on.

    Attributes
    ----------
    history
        Its states, the present one last.
    acknowledged
        Ledgers of which a writer said that they are there.
    halves
        Ledgers of which one object is there, or was.

    """

    history: list[State] = field(default_factory=lambda: [{}])
    acknowledged: set[Key] = field(default_factory=set)
    halves: set[Key] = field(default_factory=set)

    @property
    def now(self) -> State:
        return self.history[-1]

    @property
    def moment(self) -> int:
        """Number of the present state."""
        return len(self.history) - 1

    def put(self, key: Key, copy: Copy) -> None:
        """A ledger is published."""
        self.halves.discard(key)
        self.history.append({**self.now, key: copy})

    def remove(self, key: Key) -> None:
        """A ledger's index goes."""
        if key in self.now:
            self.history.append({other: copy for other, copy in self.now.items() if other != key})
        self.acknowledged.discard(key)

    def lose_data(self, key: Key) -> None:
        """A ledger's data object goes, and its index stays."""
        if key in self.now:
            self.history.append({**self.now, key: replace(self.now[key], has_data=False)})


def topics_of(state: State) -> set[str]:
    """Return the topics that have at least one ledger with its data."""
    return {copy.content.topic for copy in state.values() if copy.has_data}


def ledgers_of(state: State, topic: str) -> dict[int, list[Copy]]:
    """Return the copies of each ledger of a topic, ascending by id."""
    found: dict[int, list[Copy]] = defaultdict(list)
    for (_, ledger_id), copy in sorted(state.items(), key=lambda one: one[0][1]):
        if copy.content.topic == topic:
            found[ledger_id].append(copy)
    return found


def parts_of(state: State, topic: str) -> list[str]:
    """Return the topics that a name means: the one of that name, else its partitions, of which the model has less than ten."""
    known = {copy.content.topic for copy in state.values()}
    return [topic] if topic in known else sorted(name for name in known if name.startswith(f"{topic}-partition-"))


def is_whole(state: State, topic: str) -> bool:
    """Whether the topic is there, and each of its ledgers has its data, in one copy at least."""
    parts = parts_of(state, topic)
    found = [copies for part in parts for copies in ledgers_of(state, part).values()]
    return bool(found) and all(copy.content in contents_of(copies) for copies in found for copy in copies)


def contents_of(copies: Sequence[Copy]) -> list[Content]:
    """Return what the copies of one ledger hold; more than one content means that one of them hides rows."""
    return list(dict.fromkeys(copy.content for copy in copies if copy.has_data))


def rows_by_ledger(state: State, topic: str) -> dict[int, list[Row]]:
    """Return the rows of each ledger of a topic as a reader of Pulsar has them: a chunked message is where its last part is."""
    waiting: dict[Row, int] = {}
    found: dict[int, list[Row]] = {}
    for ledger_id, copies in ledgers_of(state, topic).items():
        messages = [message for content in contents_of(copies) for message in content.messages]
        found[ledger_id] = list(_joined(messages, waiting))
    return found


def rows_of(state: State, topic: str) -> list[Row]:
    """Return the rows of a topic, in order, one partition's after the other's."""
    parts = parts_of(state, topic)
    return [row for part in parts for rows in rows_by_ledger(state, part).values() for row in rows]


def merged_rows_of(state: State, topic: str, select: Callable[[Row], bool] = lambda _: True) -> list[Row]:
    """Return those rows of a topic: the next one is always that of the partitions' next ones which was published first."""
    waiting = [[*filter(select, rows_of(state, part))] for part in parts_of(state, topic)]
    found = []
    while any(waiting):
        _, first = min((rows[0].time_ms, number) for number, rows in enumerate(waiting) if rows)
        found.append(waiting[first].pop(0))
    return found


def rows_by_file(state: State, topic: str) -> dict[str, list[Row]]:
    """Return the rows of each file of an export, by its name without the suffix."""
    return {
        f"{ledger_id}{part.removeprefix(topic)}": rows
        for part in parts_of(state, topic)
        for ledger_id, rows in rows_by_ledger(state, part).items()
    }


def _joined(messages: Sequence[Message], waiting: dict[Row, int]) -> Iterator[Row]:
    for message in messages:
        if isinstance(message, Row):
            yield message
        elif message.number == waiting.get(message.row, 0):
            waiting[message.row] = message.number + 1
            if waiting[message.row] == message.parts:
                yield message.row
