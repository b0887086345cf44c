"""What the writers of ledgers know, across all clusters that were lost: each entry, whose transaction ended how, and copies of ledgers.

This is what recoveries are judged by. A ledger of one id may lie in a bucket as several copies: as its broker wrote it, and as a recovery
copied it from disks. Recoveries write ledgers of their own, too, which end open transactions.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from uuid import NAMESPACE_URL, UUID, uuid5

from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.messages.decode.entry_fields import outcomes_in
from ledgerfs.messages.decode.metadata_walk import walk_metadata
from tests.support.entries import frame, metadata

FROM_DISKS = str(UUID(int=0))
"""The uuid of a ledger that was copied from disks."""

_COMMIT, _ABORT = 21, 22


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: its value, or what its marker ends; hidden for good is one with neither."""

    value: str | None
    transaction: int = 0
    ends: str | None = None

    def frame(self) -> bytes:
        """Return it as a broker stores it."""
        reported = {"transaction_most": 7, "transaction_least": self.transaction} if self.transaction else {}
        if self.ends is not None:
            kind = _COMMIT if self.ends == "committed" else _ABORT
            return frame(metadata(**reported, marker_type=kind), b"")
        assert self.value is not None
        return frame(metadata(**reported), self.value.encode())


HIDDEN = Entry(None)
"""A message that no reader gets."""

Content = Sequence[Entry]


@dataclass
class WrittenLedgers:
    """All ledgers of topics that any cluster wrote, and all copies that recoveries made.

    Attributes
    ----------
    topics
        {ledger: its topic, by its own metadata}.
    entries
        {ledger: what was acknowledged}.
    unacknowledged
        {ledger: what bookies may have behind that}.
    copies
        {(ledger, uuid): what a copy has that is not as its broker wrote it}.
    made
        Ledgers with which recoveries ended transactions.
    values
        How many messages there are: each has its number.

    """

    topics: dict[int, str] = field(default_factory=dict)
    entries: dict[int, list[Entry]] = field(default_factory=dict)
    unacknowledged: dict[int, list[Entry]] = field(default_factory=dict)
    copies: dict[tuple[int, str], Content] = field(default_factory=dict)
    made: set[int] = field(default_factory=set)
    values: int = 0

    def begin(self, ledger_id: int, topic: str) -> None:
        """Know a new ledger."""
        self.topics[ledger_id] = topic
        self.entries[ledger_id] = []

    def forget_but(self, kept: Container[int]) -> None:
        """Know nothing any more of ledgers but some."""
        self.topics = {one: topic for one, topic in self.topics.items() if one in kept}

    def content(self, ledger_id: int, uuid: str) -> Content:
        """Return what a copy has."""
        return self.copies.get((ledger_id, uuid)) or self.entries[ledger_id]

    def note_made(self, reader: LedgerReader) -> None:
        """Know a ledger with which a recovery ended transactions that have no other end in their topic."""
        ref = reader.ref
        topic = topic_of(ref.managed_ledger).removeprefix("persistent://")
        (batch,) = reader.batches(0, ref.last_entry)
        ended = [(transaction, state) for _, transaction, state in outcomes_in(walk_metadata(batch))]
        assert len(ended) == ref.entries
        # Ledgers of the topic may tell another name, under which it was before.
        written = chain.from_iterable(self.entries.values())
        assert {7} == {most for (most, _), _ in ended}
        assert {least for (_, least), _ in ended} <= {one.transaction for one in written if one.ends is None}
        self.made.add(ref.ledger_id)
        self.begin(ref.ledger_id, topic)
        self.entries[ref.ledger_id] = [Entry(None, least, state) for (_, least), state in ended]

    def seen(self, copies: Sequence[tuple[int, str]]) -> list[Content]:
        """Return what a reader of a topic gets of each of these copies, which are all that is left of it.

        Entries keep their places. A transaction whose end is in none of them did not end.
        """
        ends: dict[int, str] = {}
        for ledger_id, uuid in copies:
            for one in self.content(ledger_id, uuid):
                if one.ends:
                    ends.setdefault(one.transaction, one.ends)
        return [
            [_seen(one, ends.get(one.transaction)) for one in self.content(ledger_id, uuid)]
            for ledger_id, uuid in copies
        ]


def values(contents: Iterable[Content]) -> list[str]:
    """Return the values that a reader gets, in their order."""
    return [one.value for content in contents for one in content if one.value is not None]


def copies_in(bucket: Path) -> dict[int, set[str]]:
    """Return {ledger: uuids} of the ledgers that a folder has as a whole."""
    names = {path.name for path in bucket.glob("*-ledger-*")}
    found: dict[int, set[str]] = {}
    for name in names:
        uuid, _, number = name.partition("-ledger-")
        if f"{name}-index" in names:
            found.setdefault(int(number), set()).add(uuid)
    return found


def is_made(ref: LedgerRef) -> bool:
    """Whether a recovery wrote a ledger to end transactions."""
    return ref.uuid == str(uuid5(NAMESPACE_URL, f"{ref.managed_ledger} {ref.ledger_id}"))


def _seen(one: Entry, end: str | None) -> Entry:
    if one.ends:
        return one
    is_seen = one.value is not None and (not one.transaction or end == "committed")
    return Entry(one.value) if is_seen else HIDDEN
