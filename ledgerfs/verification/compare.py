"""Compare two buckets: which ledgers and saved schemas one of them lacks, or has otherwise."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.known_schemas import KnownSchemas
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.errors import CorruptObjectError, LedgerfsError
from ledgerfs.formats.topic_names import topic_of

if TYPE_CHECKING:
    from ledgerfs.catalog.catalog import Catalog
    from ledgerfs.catalog.reader import LedgerReader

_NOTHING = np.empty(0, np.uint8)

OnRead = Callable[[int], None]
"""Called with the bytes of entries that were compared."""


class Kind(Enum):
    """Kind of a difference."""

    MISSING = "missing"
    """The second bucket lacks it, or has it incompletely."""
    EXTRA = "extra"
    """Only the second bucket has it."""
    DIFFERENT = "different"
    """Both have it, and it is not the same."""
    UNREADABLE = "unreadable"
    """The first bucket has it incompletely, so it cannot be compared."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference of two buckets: a ledger, whose id is None if it is unknown, or a saved schema."""

    kind: Kind
    topic: str
    ledger_id: int | None
    reason: str
    is_schema: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**asdict(self), "kind": self.kind.value}


def compare(
    bucket: Bucket, other: Bucket, *, with_bytes: bool = False, on_read: OnRead = lambda _: None
) -> Iterator[Difference]:
    """Yield the differences of two buckets, topic by topic; lists both again.

    Ledgers are the same if id, numbers of entries and bytes, and creation times are; ``with_bytes`` also reads and compares their entries.
    Of several copies of a ledger, the one to read is compared. Raises the errors of listing and reading.
    """
    catalog, others = bucket.list_all(), other.list_all()
    names = dict.fromkeys([*catalog.known_names, *others.known_names])
    for name in sorted(names, key=str):
        own, found = _ledgers(catalog, name), _ledgers(others, name)
        unreadable, absent = _unreadable(catalog, name), _unreadable(others, name)
        for ledger_id, why in unreadable.items():
            yield Difference(Kind.UNREADABLE, topic_of(name), ledger_id, why)
        for ledger_id in sorted({*own, *found} - unreadable.keys()):
            there = None if ledger_id in absent else found.get(ledger_id)
            reason = _difference(own.get(ledger_id), there, absent.get(ledger_id))
            if reason is None and with_bytes:
                reason = _unequal(bucket.reader(own[ledger_id]), other.reader(found[ledger_id]), on_read)
            if reason is not None:
                yield Difference(reason[0], topic_of(name), ledger_id, reason[1])
    for ledger_id in catalog.unplaced():
        yield Difference(Kind.UNREADABLE, topic_of(None), ledger_id, "its topic is unknown")
    if bucket.has_objects and other.has_objects:
        yield from _schemas(bucket, other)


def _ledgers(catalog: "Catalog", name: str | None) -> dict[int, LedgerRef]:
    return {one.ledger_id: one for one in catalog.refs_of(name) if one.copy == 0 and one.is_sound}


def _unreadable(catalog: "Catalog", name: str | None) -> dict[int | None, str]:
    """Return {id: reason} of the ledgers that a bucket has incompletely, or in contradicting copies."""
    damaged = {one.ledger_id: "it is damaged" for one in catalog.refs_of(name) if one.copy == 0 and not one.is_sound}
    return damaged | {one.known_id: one.why for one in catalog.missing_of(name)}


def _difference(own: LedgerRef | None, found: LedgerRef | None, absent: str | None) -> tuple[Kind, str] | None:
    if own is None:
        return Kind.EXTRA, "only the second bucket has it"
    if found is None:
        return Kind.MISSING, absent or "the second bucket does not have it"
    if not own.agrees_with(found):
        numbers = (f"{one.entries:,} entries, {one.length:,} bytes, created {one.created_ms}" for one in (own, found))
        return Kind.DIFFERENT, " against ".join(numbers)
    return None


def _unequal(own: "LedgerReader", found: "LedgerReader", on_read: OnRead) -> tuple[Kind, str] | None:
    """Read two ledgers with equally many bytes; return why they differ. A damaged one is a difference, too."""
    ours, theirs = _pieces(own), _pieces(found)
    one = other = _NOTHING
    place = 0
    try:
        while True:
            one = one if one.size else next(ours, _NOTHING)
            other = other if other.size else next(theirs, _NOTHING)
            size = min(one.size, other.size)
            if size == 0:
                return (Kind.DIFFERENT, "one has more records") if one.size or other.size else None
            if not np.array_equal(one[:size], other[:size]):
                at = place + int((one[:size] != other[:size]).argmax())
                return Kind.DIFFERENT, f"byte {at} of the .entries file differs"
            one, other, place = one[size:], other[size:], place + size
            on_read(size)
    except CorruptObjectError as error:
        return Kind.DIFFERENT, str(error)


def _pieces(reader: "LedgerReader") -> "Iterator[npt.NDArray[np.uint8]]":
    """Yield the records of a ledger: the bytes of its ``.entries`` file."""
    for batch in reader.batches(reader.first_entry, reader.last_entry):
        yield np.frombuffer(batch.records(), np.uint8)


def _schemas(bucket: Bucket, other: Bucket) -> Iterator[Difference]:
    def saved(one: Bucket) -> Mapping[str, Any]:
        return KnownSchemas(one).all_versions(lambda _, error: _raise(error))

    own, found = saved(bucket), saved(other)
    for topic, versions in own.items():
        there = {one.version: one for one in found.get(topic, ())}
        for version in versions:
            if version.version not in there:
                yield Difference(
                    Kind.MISSING, topic, None, f"the second bucket lacks version {version.version}", is_schema=True
                )
            elif there[version.version].schema != version.schema:
                yield Difference(Kind.DIFFERENT, topic, None, f"version {version.version} differs", is_schema=True)


def _raise(error: LedgerfsError) -> None:
    raise error
