"""Missing ledgers: known in a bucket but not readable. As values, and as rows of a table.

A read of a topic with a missing ledger raises before the first row (`missing_error`). If a bucket has ledgers of unknown topic, a read of
any topic warns with their number (`unplaced_text`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, cast

import numpy as np

from ledgerfs.catalog.layouts_known import layout_rows
from ledgerfs.display import printable
from ledgerfs.errors import LedgerfsError, MissingLedgerError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.formats.uuid_halves import uuid_from_halves
from ledgerfs.storage.failures import READ_THE_REST

_MOST_NAMED = 3
UNKNOWN = -1
"""An unknown row of a name, id of a ledger, or number of entries."""


UPLOAD_MS = 10 * 60 * 1000
"""How long an incomplete ledger may still be written after its last byte: Pulsar writes an index within seconds, but retries for minutes if
the store is slow or fails."""

CLOCKS_MS = 24 * 60 * 60 * 1000
"""The largest lead of an object's time over our clock; a later time is ignored."""


class GapKind(IntEnum):
    """Reasons why a ledger cannot be read, the most precise ones first."""

    DATA_LOST = 0
    INDEX_UNREADABLE = 1
    INDEX_LOST = 2
    CONTRADICTED = 3
    """Two copies of the ledger have different entries; readers use one of them."""
    UNREADABLE = 4
    """Its objects are incomplete, damaged, or of an unknown kind."""
    BEING_WRITTEN = 5
    """It is incomplete, but may still be written: it is young, or its job has published nothing."""
    NOTHING_LEFT = 6
    """Its folder exists, but without its objects."""
    NOT_IN_BOOKKEEPER = 7
    """The ledger list of a live cluster has it as the current one, without entries, but BookKeeper does not."""
    END_UNKNOWN = 8
    """It is open, and its end is unknown, since too many of its bookies or their disks are unavailable."""
    LIST_UNREADABLE = 9
    """The ledger list of its topic is damaged in the metadata of a cluster, so its ledgers are unknown."""
    NOT_ON_DISKS = 10
    """Its metadata refers to BookKeeper, but the given disks have no entry of it."""
    NEWER_THAN_METADATA = 11
    """It was created after the metadata was saved, so its topic is unknown."""


THERE_OR_UNCLEAR = frozenset(
    {
        GapKind.END_UNKNOWN,
        GapKind.LIST_UNREADABLE,
        GapKind.UNREADABLE,
        GapKind.NOT_ON_DISKS,
        GapKind.NEWER_THAN_METADATA,
    }
)
"""Kinds whose ledgers exist, or may exist."""


GAP = np.dtype(
    [
        ("uuid_high", "u8"),
        ("uuid_low", "u8"),
        ("ledger_id", "i8"),  # or UNKNOWN
        ("name", "i4"),  # row of Catalog.names, or UNKNOWN
        ("place", "i4"),  # row of Catalog.places
        ("layout", "i1"),
        ("kind", "i1"),
        ("is_beside", "?"),  # whether readers use another copy of the ledger
        ("last_entry", "i8"),  # by the index; UNKNOWN without one
        ("length", "i8"),
        ("created_ms", "i8"),  # 0: unknown
        ("modified_ms", "i8"),  # of the object that shows the ledger
    ]
)
"""A missing ledger: row of `ledgerfs.catalog.catalog.Catalog.gaps`."""

_REASONS = {
    GapKind.DATA_LOST: "its index exists, but its data object is missing",
    GapKind.INDEX_UNREADABLE: "its index cannot be read",
    GapKind.INDEX_LOST: "its data object exists, but its index is missing",
    GapKind.UNREADABLE: "its objects cannot be read as a ledger",
    GapKind.CONTRADICTED: "two copies of it have different entries, so reading one would hide entries of the other",
    GapKind.NOTHING_LEFT: "both its data and its index are missing",
    GapKind.NOT_IN_BOOKKEEPER: "it is in the topic's ledger list, but neither in BookKeeper nor in a bucket",
    GapKind.END_UNKNOWN: "its last entry is unknown, because too many of its bookies are down or do not answer",
    GapKind.LIST_UNREADABLE: "the topic's ledger list cannot be read",
    GapKind.NOT_ON_DISKS: "the given disks have no entry of it",
    GapKind.NEWER_THAN_METADATA: "it was created after the metadata was saved",
    GapKind.BEING_WRITTEN: "it is still being written, or its writer stopped early",
}


@dataclass(frozen=True, slots=True)
class MissingLedger:
    """A ledger of a topic that cannot be read, or not as a whole.

    Attributes
    ----------
    ledger_id
        Its id; -1 if unknown.
    layout
        Number of its layout (`ledgerfs.catalog.layouts_known`).
    uuid, key
        Uuid of the upload, and key of the object that shows it.
    entries, bytes
        Number of its entries and their bytes, by its index; None without an index.
    kind
        The reason; `why` is its text.
    is_beside
        Whether another copy of the ledger exists, which readers use with ``on_corrupt="skip"``.
    created_ms, modified_ms
        Creation of the ledger, None if unknown; last modification of the object; ms since 1970 UTC.
    refusal
        The error of a store that refused access; None for a lost or damaged ledger.
    is_skipped
        Whether readers skip it because of the refusal (``on_unreadable="skip"``).

    """

    ledger_id: int
    layout: int
    topic: str
    uuid: str
    key: str
    entries: int | None
    bytes: int | None
    kind: GapKind
    is_beside: bool
    created_ms: int | None
    modified_ms: int
    refusal: LedgerfsError | None = None
    is_skipped: bool = False

    @property
    def why(self) -> str:
        """The reason as text."""
        return _REASONS[self.kind] if self.refusal is None else self.refusal.reason

    @property
    def is_unclear(self) -> bool:
        """Whether it may exist: it is refused, unreadable, or partly unknown."""
        return self.refusal is not None or self.kind in THERE_OR_UNCLEAR

    @property
    def known_id(self) -> int | None:
        """Its id; None if unknown."""
        return None if self.ledger_id == UNKNOWN else self.ledger_id

    @property
    def name(self) -> str:
        """Its name in messages."""
        return "a ledger of unknown id" if self.known_id is None else f"ledger {self.ledger_id}"

    def as_json(self) -> dict[str, Any]:
        """Return its description for users, as JSON values."""
        reported = {name: getattr(self, name) for name in ("key", "entries", "bytes", "why")}
        return {"ledger_id": self.known_id, **reported}


def is_young(modified_ms: Int64 | int, now_ms: int) -> Mask | bool:
    """Return whether objects are so new that they may be incomplete; the store's clock may be ahead of ours."""
    age_ms = now_ms - modified_ms
    return (age_ms < UPLOAD_MS) & (age_ms > -CLOCKS_MS)


def missing_of_row(gap: np.void, managed_ledger: str | None, place: str) -> MissingLedger:
    """Return the `MissingLedger` of one row of `GAP`."""
    high, low, ledger_id, _, _, layout, kind, is_beside, last_entry, length, created_ms, modified_ms = cast(
        "tuple[Any, ...]", gap.item()
    )
    uuid = uuid_from_halves(high, low)
    is_reported = last_entry != UNKNOWN
    return MissingLedger(
        ledger_id=ledger_id,
        layout=layout,
        topic=topic_of(managed_ledger),
        uuid=uuid,
        key=layout_rows(layout).key_of_missing(uuid, ledger_id, managed_ledger, place, kind),
        entries=last_entry + 1 if is_reported else None,
        bytes=length if is_reported else None,
        kind=GapKind(kind),
        is_beside=is_beside,
        created_ms=created_ms or None,
        modified_ms=modified_ms,
    )


def require_present(topic: str, missing: Sequence[MissingLedger], on_corrupt: str) -> None:
    """Raise `missing_error` for ledgers that the options do not skip: refused ones, and others unless ``on_corrupt`` is "skip"."""
    needed = [one for one in missing if not one.is_skipped and (one.refusal is not None or on_corrupt != "skip")]
    if needed:
        raise missing_error(topic, needed)


def missing_error(topic: str, missing: Sequence[MissingLedger]) -> LedgerfsError:
    """Return the error for an incomplete topic: the store's refusal if there is one, else `MissingLedgerError`."""
    refused = [one for one in missing if one.refusal is not None]
    if refused and refused[0].refusal is not None:
        first, refusal = refused[0], refused[0].refusal
        more = f" ({len(refused) - 1:,} more ledgers of the topic are refused)" if len(refused) > 1 else ""
        reason = f"cannot read {first.name} of {printable(topic)}{more}: {refusal.reason}; {READ_THE_REST}"
        return type(refusal)(reason, key=refusal.key, offset=refusal.offset)
    shown = "; ".join(f"{one.name}: {one.why} ({one.key})" for one in missing[:_MOST_NAMED])
    more = f"; and {len(missing) - _MOST_NAMED:,} more" if len(missing) > _MOST_NAMED else ""
    ledgers = "ledger of this topic" if len(missing) == 1 else "ledgers of this topic"
    return MissingLedgerError(
        f"{len(missing):,} {ledgers} cannot be read: {shown}{more}. `ledgerfs verify` shows more, "
        'on_corrupt="skip" (--on-corrupt skip) reads the rest',
        key=topic,
    )


def being_written_text(being_written: Sequence[MissingLedger]) -> str:
    """Return a text about the ledgers that are being written."""
    topics = ("unknown topic" if one.topic == topic_of(None) else printable(one.topic) for one in being_written)
    named = zip(being_written[:_MOST_NAMED], topics, strict=False)
    shown = "; ".join(f"{one.name} of {topic}" for one, topic in named)
    more = "; …" if len(being_written) > _MOST_NAMED else ""
    return f"{len(being_written):,} ledgers are probably still being uploaded and are not read yet ({shown}{more})"


def refused_text(url: str, refused: Sequence[LedgerfsError]) -> str:
    """Return the warning for reads without the objects that the store refused, of any topic."""
    more = f"; and {len(refused) - 1:,} more" if len(refused) > 1 else ""
    return f"{url}: left out objects that the store refuses: {refused[0].key}: {refused[0].reason}{more}"


def closed_text(url: str, closed: Sequence[LedgerfsError]) -> str:
    """Return the warning for a bucket with unlistable folders of unknown content."""
    named = ", ".join(str(one.key) for one in closed[:_MOST_NAMED]) + (", …" if len(closed) > _MOST_NAMED else "")
    return f"{url}: cannot list {named} ({closed[0].reason}); any ledgers there are left out"


def unplaced_text(url: str, unplaced: Sequence[int], being_written: Sequence[MissingLedger]) -> str:
    """Return the warning for a bucket with ledgers whose topic is unknown (``unplaced``: their ids), or that are being written."""
    parts = []
    if unplaced:
        shown = ", ".join(map(str, unplaced[:_MOST_NAMED])) + (", …" if len(unplaced) > _MOST_NAMED else "")
        parts.append(
            f"the topic of {len(unplaced):,} ledgers in this bucket is unknown (ids {shown}): their index is lost, unreadable "
            "or not written yet, so any topic may lack ledgers; `ledgerfs verify` lists them"
        )
    if being_written:
        parts.append(being_written_text(being_written))
    return f"{url}: {'; '.join(parts)}"
