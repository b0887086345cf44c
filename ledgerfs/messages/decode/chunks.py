"""Chunked messages, joined (PIP-37).

A large message is several entries in order, with entries of other producers between them, and may continue in the next ledger. The joiner
keeps its parts until the last one arrives. It bounds the bytes of waiting parts: a message whose parts were dropped is still followed, to
detect whether it lacks parts or is too large.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from ledgerfs.formats.decompression import LARGEST
from ledgerfs.messages.codecs.claimed_sizes import check_size, too_large
from ledgerfs.messages.codecs.size_limits import DEFAULT_MAX_MESSAGE_BYTES

LEAST_WAITING_BYTES = 256 << 20
"""Least bound of the bytes that wait in all messages together; it is higher if one message may be larger."""

MAX_ENDED = 10_000
"""How many ended messages are remembered, to ignore repeated parts of them. A repeated part of an older one is reported as incomplete."""

_LONGEST_ID = 256
_COST_OF_PART = 64
"""Bytes of memory that a kept part takes besides its own, even if it is empty."""


@dataclass(frozen=True, slots=True)
class Incomplete:
    """A chunked message that lacks parts: position of its first part, how many parts came, and how many it has."""

    ledger_id: int
    entry_id: int
    parts: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Joined:
    """A whole message: its payload, unless parts of it could not be decrypted."""

    payload: bytes
    is_sealed: bool = False


@dataclass(slots=True)
class _Waiting:
    """A message that waits for parts; ``total`` bytes of it arrived, which are in ``parts`` unless they were dropped."""

    ledger_id: int
    entry_id: int
    chunks: int
    came: int = 0
    total: int = 0
    is_sealed: bool = False
    parts: list[bytes] | None = field(default_factory=list)

    def take(self, payload: bytes | None) -> int:
        """Add the next part; return by how many bytes `cost` grew."""
        payload, self.is_sealed = payload or b"", self.is_sealed or payload is None
        self.came += 1
        self.total += len(payload)
        if self.parts is not None:
            self.parts.append(payload)
        return len(payload) + _COST_OF_PART

    @property
    def cost(self) -> int:
        """Bytes of memory for its parts, including dropped ones."""
        return self.total + self.came * _COST_OF_PART


@dataclass(slots=True)
class ChunkJoiner:
    """Joins the chunks of one topic, which must arrive in the order of the topic.

    Attributes
    ----------
    max_message_bytes
        The largest message to join. This many bytes, or `LEAST_WAITING_BYTES` if that is more, may wait in all messages together.
    incomplete
        Messages that lack parts.
    earlier
        Called for a part whose first part is unknown, since reading began in the middle of a topic: adds earlier parts by `recall`, and
        returns whether there were any.
    joined_since
        The first ledger of all messages that were joined from several ledgers; None without such a message.
    ended_before
        Whether a part was left out whose message had ended before reading began.

    """

    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    incomplete: list[Incomplete] = field(default_factory=list)
    earlier: Callable[[], bool] | None = None
    joined_since: int | None = None
    ended_before: bool = False
    _waiting: dict[bytes, _Waiting] = field(default_factory=dict)
    _kept: "OrderedDict[bytes, _Waiting]" = field(default_factory=OrderedDict)
    _ended: "OrderedDict[bytes, bool]" = field(default_factory=OrderedDict)
    """Messages that are joined or given up: whether their first part was found."""
    _wanted: int = 0
    _most_wanted: int = 0
    waiting_bytes: int = field(init=False, default=0)
    """Bytes of the parts that are kept."""

    def add(
        self, position: tuple[int, int], chunked_id: bytes, chunk: int, chunks: int, payload: bytes | None
    ) -> Joined | None:
        """Add one part, whose entry is at ``position`` (ledger, entry); return the whole message if it is the last part.

        A payload of None could not be decrypted. As in Pulsar's consumer, a first part starts the message again, a repeated part is
        ignored, and a gap gives the message up. Raises `MessageTooLargeError` at the last part of a message whose parts were dropped.
        """
        if len(chunked_id) > _LONGEST_ID:
            # Pulsar's ids are short. Others may have megabytes, and thousands are remembered.
            chunked_id = sha256(chunked_id).digest()
        if chunk == 0:
            self._give_up(chunked_id)
            self._ended.pop(chunked_id, None)
            self._waiting[chunked_id] = self._kept[chunked_id] = _Waiting(*position, chunks)
        if chunked_id in self._ended:
            return None
        waiting = self._find(chunked_id)
        if waiting is None:
            self._leave_out(position, chunked_id, chunks)
            return None
        if chunk != waiting.came:
            if chunk > waiting.came:
                self._give_up(chunked_id)
            return None
        self._take(chunked_id, waiting, payload)
        if waiting.came < waiting.chunks:
            return None
        self._forget(chunked_id)
        self._end(chunked_id)
        self._note_joined(waiting.ledger_id, position[0])
        return self._whole(waiting)

    def recall(self, older: "ChunkJoiner") -> None:
        """Add the waiting and ended messages of a joiner that read earlier entries; messages of this joiner stay as they are."""
        for chunked_id, waiting in older._waiting.items():  # noqa: SLF001  (of the same class)
            if chunked_id not in self._waiting and chunked_id not in self._ended:
                self._waiting[chunked_id] = waiting
                if waiting.parts is not None:
                    self._kept[chunked_id] = waiting
                    self.waiting_bytes += waiting.cost
                self._wanted += waiting.cost
        self._most_wanted = max(self._most_wanted, self._wanted, older._most_wanted)  # noqa: SLF001
        for chunked_id, is_first_seen in older._ended.items():  # noqa: SLF001
            # If the first part was not found, more parts may be in even earlier entries.
            if is_first_seen and chunked_id not in self._waiting and chunked_id not in self._ended:
                self._end(chunked_id)

    def finish(self) -> list[Incomplete]:
        """Give up the messages that still wait, and return all incomplete ones."""
        for chunked_id in list(self._waiting):
            self._give_up(chunked_id)
        return self.incomplete

    def _find(self, chunked_id: bytes) -> _Waiting | None:
        """Return the waiting message of a part; reads earlier entries as far as necessary."""
        waiting = self._waiting.get(chunked_id)
        while waiting is None and chunked_id not in self._ended and self.earlier is not None and self.earlier():
            waiting = self._waiting.get(chunked_id)
        return waiting

    def _leave_out(self, position: tuple[int, int], chunked_id: bytes, chunks: int) -> None:
        """Leave out a part that belongs to no waiting message."""
        if chunked_id in self._ended:
            self.ended_before = True
            return
        self._end(chunked_id, is_first_seen=False)
        self.incomplete.append(Incomplete(*position, 1, chunks))

    def _note_joined(self, first_ledger: int, last_ledger: int) -> None:
        if first_ledger != last_ledger:
            self.joined_since = first_ledger if self.joined_since is None else min(self.joined_since, first_ledger)

    @property
    def _most_bytes(self) -> int:
        return max(LEAST_WAITING_BYTES, self.max_message_bytes)

    def _take(self, chunked_id: bytes, waiting: _Waiting, payload: bytes | None) -> None:
        grown = waiting.take(payload)
        self._wanted += grown
        self._most_wanted = max(self._most_wanted, self._wanted)
        if waiting.parts is not None:
            self.waiting_bytes += grown
            if waiting.total > min(self.max_message_bytes, LARGEST):
                self._drop(chunked_id)
        # After the last part the message no longer waits.
        while self.waiting_bytes > self._most_bytes and waiting.came < waiting.chunks:
            self._drop(next(iter(self._kept)))

    def _whole(self, waiting: _Waiting) -> Joined:
        if waiting.is_sealed:
            return Joined(b"", is_sealed=True)
        if waiting.parts is not None:
            return Joined(b"".join(waiting.parts))
        first = f"{waiting.ledger_id}:{waiting.entry_id}"
        check_size(waiting.total, self.max_message_bytes, f"the chunked message that begins at {first}")
        what = f"{self._most_wanted} bytes of incomplete chunked messages are in memory, including the one that begins at {first}"
        raise too_large(what, self._most_wanted, self._most_bytes)

    def _drop(self, chunked_id: bytes) -> None:
        """Drop the bytes of a message, which is still followed."""
        waiting = self._kept.pop(chunked_id)
        waiting.parts = None
        self.waiting_bytes -= waiting.cost

    def _give_up(self, chunked_id: bytes) -> None:
        waiting = self._forget(chunked_id)
        if waiting is not None:
            self._end(chunked_id)
            self.incomplete.append(Incomplete(waiting.ledger_id, waiting.entry_id, waiting.came, waiting.chunks))

    def _end(self, chunked_id: bytes, *, is_first_seen: bool = True) -> None:
        """Remember that a message is joined or given up, so that its further parts are not reported again."""
        self._ended[chunked_id] = is_first_seen
        if len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)

    def _forget(self, chunked_id: bytes) -> _Waiting | None:
        waiting = self._waiting.pop(chunked_id, None)
        if waiting is not None:
            self._wanted -= waiting.cost
            if self._kept.pop(chunked_id, None) is not None:
                self.waiting_bytes -= waiting.cost
        return waiting
