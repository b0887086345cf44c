"""Chunked messages, joined (PIP-37).

A large message is several entries, one behind the other but with those of other producers between them, and they may go on in the next
ledger. Parts are kept until the last one comes; how much may wait is bounded, and what never becomes whole is reported.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

MAX_WAITING_BYTES = 256 << 20
MAX_WAITING_MESSAGES = 1000
MAX_ENDED = 10_000
_LONGEST_ID = 256
_COST_OF_PART = 64
"""What keeping a part costs beside its bytes, of which it may have none."""


@dataclass(frozen=True, slots=True)
class Incomplete:
    """A chunked message of which parts are missing: where its first part stands, how many parts came, how many there are."""

    ledger_id: int
    entry_id: int
    parts: int
    chunks: int


@dataclass(slots=True)
class _Waiting:
    ledger_id: int
    entry_id: int
    chunks: int
    parts: list[bytes] = field(default_factory=list)
    size: int = 0


@dataclass(slots=True)
class ChunkJoiner:
    """Joins the chunks of one topic, which have to come in the order of the topic.

    Attributes
    ----------
    incomplete
        Messages that were given up: a part was missing, or too much was waiting.
    earlier
        Called for a part whose first part is not known, where reading began in the middle of a topic: adds earlier parts by `recall`, and
        returns whether there were any.
    joined_since
        Of all messages that were joined from several ledgers, the first ledger; None if there is no such message.
    ended_before
        Whether a part was left out whose message had ended before reading began.

    """

    incomplete: list[Incomplete] = field(default_factory=list)
    earlier: Callable[[], bool] | None = None
    joined_since: int | None = None
    ended_before: bool = False
    _waiting: "OrderedDict[bytes, _Waiting]" = field(default_factory=OrderedDict)
    _ended: "OrderedDict[bytes, bool]" = field(default_factory=OrderedDict)
    """Messages that are whole or given up, and whether their first part was seen."""
    _bytes: int = 0

    def add(
        self, position: tuple[int, int], chunked_id: bytes, chunk: int, chunks: int, payload: bytes
    ) -> bytes | None:
        """Take one part, whose entry is at ``position`` (ledger, entry); return the whole payload with the last one.

        As Pulsar's consumer does: a first part begins anew, a repeated one is ignored, a gap gives the message up.
        """
        if len(chunked_id) > _LONGEST_ID:
            # Pulsar's are short; others may be megabytes, of which thousands would be remembered.
            chunked_id = sha256(chunked_id).digest()
        if chunk == 0:
            self._give_up(chunked_id)
            self._ended.pop(chunked_id, None)
            self._waiting[chunked_id] = _Waiting(*position, chunks)
        if chunked_id in self._ended:
            return None
        waiting = self._find(chunked_id)
        if waiting is None:
            self._miss(position, chunked_id, chunks)
            return None
        if chunk != len(waiting.parts):
            if chunk > len(waiting.parts):
                self._give_up(chunked_id)
            return None
        waiting.parts.append(payload)
        waiting.size += len(payload) + _COST_OF_PART
        self._bytes += len(payload) + _COST_OF_PART
        if len(waiting.parts) == waiting.chunks:
            self._forget(chunked_id)
            self._end(chunked_id)
            self._note_joined(waiting.ledger_id, position[0])
            return b"".join(waiting.parts)
        while self._bytes > MAX_WAITING_BYTES or len(self._waiting) > MAX_WAITING_MESSAGES:
            self._give_up(next(iter(self._waiting)))
        return None

    def recall(self, older: "ChunkJoiner") -> None:
        """Take over what waits in a joiner that read what is before, and which messages ended there; what began anew since stays."""
        for chunked_id, waiting in older._waiting.items():  # noqa: SLF001  (of the same class)
            if chunked_id not in self._waiting and chunked_id not in self._ended:
                self._waiting[chunked_id] = waiting
                self._bytes += waiting.size
        for chunked_id, is_first_seen in older._ended.items():  # noqa: SLF001
            # Of one whose first part was not seen, more may be before.
            if is_first_seen and chunked_id not in self._waiting and chunked_id not in self._ended:
                self._end(chunked_id)

    def finish(self) -> list[Incomplete]:
        """Give up what still waits, and return all that never became whole."""
        for chunked_id in list(self._waiting):
            self._give_up(chunked_id)
        return self.incomplete

    def _find(self, chunked_id: bytes) -> _Waiting | None:
        """Return the message that a part is of; looks before the place where reading began, until more is known of it."""
        waiting = self._waiting.get(chunked_id)
        while waiting is None and chunked_id not in self._ended and self.earlier is not None and self.earlier():
            waiting = self._waiting.get(chunked_id)
        return waiting

    def _miss(self, position: tuple[int, int], chunked_id: bytes, chunks: int) -> None:
        """Leave out a part that no message waits for."""
        if chunked_id in self._ended:
            self.ended_before = True
            return
        self._end(chunked_id, is_first_seen=False)
        self.incomplete.append(Incomplete(*position, 1, chunks))

    def _note_joined(self, first_ledger: int, last_ledger: int) -> None:
        if first_ledger != last_ledger:
            self.joined_since = first_ledger if self.joined_since is None else min(self.joined_since, first_ledger)

    def _give_up(self, chunked_id: bytes) -> None:
        waiting = self._forget(chunked_id)
        if waiting is not None:
            self._end(chunked_id)
            self.incomplete.append(Incomplete(waiting.ledger_id, waiting.entry_id, len(waiting.parts), waiting.chunks))

    def _end(self, chunked_id: bytes, *, is_first_seen: bool = True) -> None:
        """Remember that a message is whole or given up, so that its further parts are not told again."""
        self._ended[chunked_id] = is_first_seen
        if len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)

    def _forget(self, chunked_id: bytes) -> _Waiting | None:
        waiting = self._waiting.pop(chunked_id, None)
        if waiting is not None:
            self._bytes -= waiting.size
        return waiting
