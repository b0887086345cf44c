"""Check whether a ledger id is free: compare a ledger to write with those in a bucket.

Ids are unique in a cluster, but two clusters may share a bucket: there, topic and id identify a ledger. An id that a user or ledgerfs
chooses must not be that of another topic's ledger either, since the id alone would then not be enough to read it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.missing_ledgers import GapKind
from ledgerfs.catalog.same_messages import SameMessages, out_of_order
from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.errors import (
    AccessDeniedError,
    InvalidOptionError,
    LedgerExistsError,
    LedgerfsError,
    StaleObjectError,
    StoreError,
)
from ledgerfs.formats.origin import Origin

if TYPE_CHECKING:
    from ledgerfs.catalog.fragments import Unreadable


class IfExists(StrEnum):
    """Action if the bucket has a ledger of the same id."""

    FAIL = "fail"
    SKIP = "skip"
    NEW_COPY = "new-copy"

    @classmethod
    def of(cls, text: str) -> "IfExists":
        """Return the choice of this name; raises `InvalidOptionError` for an unknown one."""
        if text not in set(cls):
            raise InvalidOptionError(f"expected one of {', '.join(cls)}", key=f"if_exists={text!r}")
        return cls(text)


@dataclass(frozen=True, slots=True)
class Claim:
    """A ledger to write, with all that it is compared by with others of its id.

    Attributes
    ----------
    is_kept
        Whether it keeps its id from another bucket: then ledgers of other topics are no conflicts.
    last_entry, length
        Last entry and bytes of the entries, which identify the same ledger; None if not known yet.
    created_ms
        Creation time, ms since 1970 UTC, to distinguish it from another ledger of the same size; None if not known.
    is_original
        Whether its entries are new: then no existing ledger of any size is a copy of it.
    friends
        Uuids of other copies that are copied together with this one.
    origin
        The ledger of the same topic with the same messages, from which it is made; None for itself.
    twins
        Ids under which the source has the same messages, so that a copy of it has them as well.
    may_hide
        Whether its topic's name may mean separate ledgers beside partitions, as in the source bucket.

    """

    managed_ledger: str | None
    ledger_id: int
    if_exists: IfExists = IfExists.FAIL
    is_kept: bool = False
    last_entry: int | None = None
    length: int | None = None
    created_ms: int | None = None
    is_original: bool = False
    friends: frozenset[str] = frozenset()
    origin: Origin | None = None
    twins: frozenset[int] = frozenset()
    may_hide: bool = False

    @property
    def root(self) -> Origin | None:
        """The ledger whose messages it has (`LedgerRef.root`); None for new messages, or if that is not known yet."""
        if self.origin is not None or self.is_original or self.last_entry is None or self.length is None:
            return self.origin
        return Origin(self.ledger_id, self.last_entry, self.length)

    def is_same(self, found: LedgerRef) -> bool:
        """Whether a ledger of the bucket is a whole copy of this one, by its index."""
        return found.is_sound and self.agrees_with(found)

    def agrees_with(self, other: "Claim | LedgerRef") -> bool:
        """Whether a ledger of this id has the same topic, last entry, length and creation, as far as both are known."""
        reported = (other.managed_ledger, other.last_entry, other.length)
        is_of_then = None in {self.created_ms, other.created_ms} or self.created_ms == other.created_ms
        return is_of_then and reported == (self.managed_ledger, self.last_entry, self.length)

    def is_in_conflict(self, found: LedgerRef) -> bool:
        """Whether a ledger of the same id prevents writing this one."""
        if found.managed_ledger != self.managed_ledger:
            return not self.is_kept
        if self.if_exists is IfExists.FAIL:
            return True
        # A damaged ledger is no reason to refuse a whole one.
        return found.is_sound and (self.is_original or not self._may_be_same(found))

    def _may_be_same(self, found: LedgerRef) -> bool:
        # For a copy from a stream this is known at the end, when the bucket is listed again.
        is_open = self.if_exists is IfExists.NEW_COPY and self.last_entry is None
        return is_open or (found.is_sound and self.agrees_with(found))


class TakenIds:
    """The used ledger ids of one listing of a bucket."""

    __slots__ = ("_lost", "_same_messages", "_unreadable", "catalog")

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._same_messages = SameMessages(catalog)
        self._lost: dict[int, list[LedgerRef]] = {}
        for row in catalog.lost:
            self._lost.setdefault(int(row["ledger_id"]), []).append(catalog.ref_of(row))
        self._unreadable: dict[int, list[Unreadable]] = {}
        for one in (one for fragments in catalog.fragments.values() for one in fragments.unreadable()):
            self._unreadable.setdefault(one.ledger_id, []).append(one)

    def refs_of(self, ledger_id: int) -> list[LedgerRef]:
        """Return every ledger of this id, of any topic, even without its data object."""
        return [*self.catalog.all_of(ledger_id), *self._lost.get(ledger_id, ())]

    def copy(self, ledger_id: int, uuid: str) -> LedgerRef | None:
        """Return the ledger of this name; None unless both of its objects exist."""
        return next((ref for ref in self.catalog.all_of(ledger_id) if ref.uuid == uuid), None)

    def same(self, claim: Claim) -> list[LedgerRef]:
        """Return the whole copies of a claimed ledger."""
        return [ref for ref in self.catalog.all_of(claim.ledger_id) if claim.is_same(ref)]

    def with_messages_of(self, claim: Claim) -> list[LedgerRef]:
        """Return the whole ledgers of any id that have the messages of a claimed one (`Claim.root`)."""
        return [] if claim.root is None else self._same_messages.of(claim.root, claim.managed_ledger, claim.created_ms)

    def _doubles(self, claim: Claim) -> list[LedgerRef]:
        reported = claim.managed_ledger, claim.created_ms
        return [] if claim.root is None else self._same_messages.under_other_ids(claim.ledger_id, claim.root, *reported)

    def _misplaced(self, claim: Claim) -> LedgerRef | None:
        root = claim.root
        if root is None or not (self._same_messages.is_any_made or root.ledger_id != claim.ledger_id):
            return None
        return out_of_order(self.catalog, claim.managed_ledger, claim.ledger_id, root.ledger_id)

    def refusal(self, claim: Claim, uuid: str | None = None) -> LedgerExistsError | None:
        """Return the error for an id that is in use, or for messages that the bucket has under another id; None if there is no conflict.

        The ledger of ``uuid`` is the claim's own.
        """
        return next(self._refusals(claim, claim.friends | {uuid}), None)

    def _refusals(self, claim: Claim, friends: frozenset[str | None]) -> Iterator[LedgerExistsError]:
        for ref in self.refs_of(claim.ledger_id):
            if ref.uuid not in friends and claim.is_in_conflict(ref):
                is_of_topic = ref.managed_ledger == claim.managed_ledger
                is_compared = is_of_topic and claim.if_exists is not IfExists.FAIL
                what = f"of {ref.topic}{_difference(ref) if is_compared else ''}"
                yield _taken(claim, ref.key, what, may_be_copied=is_of_topic)
        for _, uuid, key, error in self._unreadable.get(claim.ledger_id, ()):
            # A permanently damaged index is not a conflict; one that is unreadable now may be of any ledger.
            is_meant = claim.if_exists is IfExists.FAIL or isinstance(error, AccessDeniedError | StoreError)
            if not claim.is_kept and uuid not in friends and is_meant:
                yield _taken(claim, key, "whose index cannot be read", may_be_copied=True)
        for ref in self._doubles(claim):
            if ref.ledger_id not in claim.twins:
                yield _doubled(claim, ref)
        other = self._misplaced(claim)
        if other is not None:
            yield _misread(claim, other)


def standing_error(taken: TakenIds, claim: Claim, uuid: str) -> LedgerfsError | None:
    """Return why a ledger that was written or skipped is not there, whole and without a conflict; None if it is."""
    ref = taken.copy(claim.ledger_id, uuid)
    if ref is None or not claim.is_same(ref):
        reason = "another writer has removed or replaced the ledger; write it again"
        return StaleObjectError(reason, key=f"{uuid}-ledger-{claim.ledger_id}")
    return taken.refusal(claim, uuid) or _contradiction(taken.catalog, claim, ref)


def _contradiction(catalog: Catalog, claim: Claim, ref: LedgerRef) -> LedgerExistsError | None:
    """Return the error for new messages beside an incomplete ledger with their id, which would make the topic unreadable."""
    if not claim.is_original or claim.if_exists is IfExists.FAIL:
        # With "fail", an existing one has already refused it, and of two concurrent writes the first one stays.
        return None
    missing = (one for one in catalog.absent_of(claim.managed_ledger) if one.ledger_id == claim.ledger_id)
    unclear = {GapKind.CONTRADICTED, GapKind.BEING_WRITTEN}
    other = next((one for one in missing if one.refusal is not None or one.kind in unclear), None)
    if other is None:
        return None
    reason = f"the topic has other objects of ledger {claim.ledger_id}: {other.why} ({other.key}); import the rows under another id"
    return LedgerExistsError(reason, key=ref.key)


def _taken(claim: Claim, key: str, what: str, *, may_be_copied: bool) -> LedgerExistsError:
    is_for_copies = claim.if_exists is IfExists.FAIL and may_be_copied
    advice = (
        ", or add another copy of the same ledger (if_exists='new-copy', --if-exists new-copy)" if is_for_copies else ""
    )
    return LedgerExistsError(
        f"the bucket already has ledger {claim.ledger_id} {what}; ids are unique in a cluster, and ledgers are never overwritten: "
        f"remove it first{advice}",
        key=key,
    )


def _doubled(claim: Claim, ref: LedgerRef) -> LedgerExistsError:
    """Return the error for a ledger of another id that has the same messages."""
    reason = (
        f"the bucket already has the messages of ledger {_root_id(claim)}, in ledger {ref.ledger_id} of {ref.topic}: they would be "
        "duplicated; remove that ledger first"
    )
    return LedgerExistsError(reason, key=ref.key)


def _misread(claim: Claim, other: LedgerRef) -> LedgerExistsError:
    """Return the error for a ledger that would be read in the wrong order with the claimed one (`same_messages`)."""
    reason = (
        f"the bucket has ledger {other.ledger_id}, with the messages of ledger {other.root.ledger_id}: with the id {claim.ledger_id}, "
        f"ledger {_root_id(claim)} would be read in the wrong order, which breaks transactions and chunked messages; remove ledger "
        f"{other.ledger_id} first, and copy both again"
    )
    return LedgerExistsError(reason, key=other.key)


def _root_id(claim: Claim) -> int:
    return claim.ledger_id if claim.root is None else claim.root.ledger_id


def _difference(ref: LedgerRef) -> str:
    created = "" if ref.created_ms is None else f", created {iso_time(ref.created_ms)}"
    return f"{created}, with {ref.entries} entries of {ref.length} bytes, which is a different ledger"
