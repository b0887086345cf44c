"""Decide which ledgers may be written into a bucket: list it once, after a ledger was published.

A writer that finds another ledger of its id removes its own. Of two writers that publish one id, the later one finds the other's ledger; if
each finds the other's, both remove theirs. So at most one of them succeeds, with any earlier state of the catalog. If the known catalog
already has the id, the ledger is refused before anything is sent.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.partitioned_names import require_own_name
from ledgerfs.errors import InvalidNameError, LedgerExistsError, LedgerfsError, ObjectNotFoundError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.layouts.pulsar_blob.ledger_group import publish_all, take_back
from ledgerfs.layouts.pulsar_blob.writer import UnindexedLedger, WrittenLedger
from ledgerfs.storage.object_store import RawStore
from ledgerfs.writing.claims import Claim, IfExists, TakenIds, standing_error


@dataclass(frozen=True, slots=True)
class Expected:
    """A ledger that the next listing has to contain, whole and without a conflict.

    Attributes
    ----------
    claim
        With the last entry and the length, which identify the same ledger.
    is_new
        Whether it was just written, and is removed again if the listing refuses it; otherwise it existed, and was skipped.

    """

    claim: Claim
    uuid: str
    is_new: bool

    @classmethod
    def of(cls, claim: Claim, written: WrittenLedger) -> "Expected":
        """Return the expectation of a ledger that was just written."""
        metadata = written.offload_index.metadata
        claim = replace(claim, last_entry=metadata.last_entry, length=metadata.length, created_ms=metadata.created_ms)
        return cls(claim, written.ledger.key.uuid, is_new=True)

    @property
    def key(self) -> LedgerKey:
        """The names of its objects."""
        return LedgerKey(self.uuid, self.claim.ledger_id, is_index=False)


def confirm(bucket: Bucket, expected: Sequence[Expected]) -> list[LedgerfsError | None]:
    """List a bucket, and return for each ledger why it is not there, whole and without a conflict; None if it is.

    Removes new ledgers with an error again. Raises the store's errors, and `UncertainWriteError` if removing fails.
    """
    errors = _errors(bucket, expected)
    wrong = [(one, error) for one, error in zip(expected, errors, strict=True) if one.is_new and error is not None]
    if wrong:
        bucket.expire()
        take_back(bucket.raw_store, [one.key for one, _ in wrong], wrong[0][1])
    return errors


def publish_together(
    bucket: Bucket, managed_ledger: str, if_exists: IfExists, made: Sequence[UnindexedLedger]
) -> list[WrittenLedger]:
    """Make data objects of one topic ledgers, all or none; costs a listing.

    Raises `LedgerExistsError` if the bucket has another ledger of one of the ids, `InvalidNameError` if the new ones hide partitions,
    `StaleObjectError` if a data object no longer exists, and the errors of `publish_all`.
    """
    written = publish_all(bucket.raw_store, made)
    bucket.expire()
    claims = (Claim(managed_ledger, one.ledger.key.ledger_id, if_exists) for one in made)
    expected = [Expected.of(claim, one) for claim, one in zip(claims, written, strict=True)]
    try:
        first = next((error for error in _errors(bucket, expected) if error is not None), None)
        if first is not None:
            raise first
    except BaseException as error:
        take_back(bucket.raw_store, [one.key for one in expected], error)
        raise
    return written


def _errors(bucket: Bucket, expected: Sequence[Expected]) -> list[LedgerfsError | None]:
    """List a bucket, and return the error of each ledger."""
    taken = TakenIds(bucket.list_to_write())
    new = {one.uuid for one in expected if one.is_new}
    errors = [
        standing_error(taken, one.claim, one.uuid) or (_hiding(taken.catalog, one.claim, new) if one.is_new else None)
        for one in expected
    ]
    return [
        _taken_back(error) if one.is_new and isinstance(error, LedgerExistsError | InvalidNameError) else error
        for one, error in zip(expected, errors, strict=True)
    ]


def _hiding(catalog: Catalog, claim: Claim, new: Collection[str]) -> InvalidNameError | None:
    """Return the error if new ledgers hide partitions that were written meanwhile."""
    if claim.managed_ledger is None or claim.may_hide:
        return None
    try:
        require_own_name(catalog, claim.managed_ledger, new)
    except InvalidNameError as error:
        return error
    return None


def is_current(store: RawStore, ref: LedgerRef) -> bool:
    """Whether the objects of a ledger are unchanged since the listing: a HEAD each."""
    for _, listed in reversed(ref.objects):
        try:
            found = store.head(listed.key).stat
        except ObjectNotFoundError:
            return False
        if found.size != listed.size or listed.version not in {"", found.version}:
            return False
    return True


class Admission:
    """Decides which ledgers are written to a bucket, and lists it once afterwards. For one thread."""

    __slots__ = ("_expected", "_looked_at", "_progress", "_taken", "bucket", "skipped")

    def __init__(self, bucket: Bucket, progress: Progress | None = None) -> None:
        self.bucket = bucket
        self.skipped: list[Expected] = []
        """Existing ledgers, found by `is_there`."""
        self._progress = progress
        self._taken: TakenIds | None = None
        self._expected: list[Expected] = []
        self._looked_at: set[Claim] = set()

    @property
    def taken(self) -> TakenIds:
        """The ids in the bucket by a listing of this call."""
        if self._taken is None:
            self._taken = TakenIds(self.bucket.list_to_write(self._progress))
        return self._taken

    def require_free(self, claim: Claim) -> None:
        """Raise `LedgerExistsError` if the id is in use, and `InvalidNameError` if the name is that of a partitioned topic.

        Checks the known catalog, without requests; lists the bucket only to confirm a refusal. `confirm` decides.
        """
        if claim in self._looked_at:
            return
        known = self.bucket.listed_catalog
        is_free = self._taken is None and (known is None or _refusal(TakenIds(known), claim) is None)
        refusal = None if is_free else _refusal(self.taken, claim)
        if refusal is not None:
            raise refusal
        self._require_first(claim)

    def is_there(self, claim: Claim, measure: Callable[[], tuple[int, int]]) -> bool:
        """Whether the same ledger is in the bucket, and is to be skipped; raises `LedgerExistsError` if another one has its id.

        Lists the bucket, unless this call has. ``measure`` returns the last entry and the length of the new ledger; it is only called if
        there is a ledger to compare with.
        """
        mine = any(one.claim.ledger_id == claim.ledger_id for one in self._expected)
        if not (mine or self.taken.refs_of(claim.ledger_id)):
            return False
        last_entry, length = measure()
        unmeasured, claim = claim, replace(claim, last_entry=last_entry, length=length)
        self.require_free(claim)
        same = (one for one in self.taken.same(claim) if is_current(self.bucket.raw_store, one))
        found = None if mine else next(same, None)
        if found is None:
            self._looked_at.add(unmeasured)
        else:
            self.skipped.append(Expected(claim, found.uuid, is_new=False))
        return mine or found is not None

    def wrote(self, claim: Claim, written: WrittenLedger) -> None:
        """Add a ledger that was published."""
        self.bucket.expire()
        self._expected.append(Expected.of(claim, written))

    def expect(self, skipped: Iterable[Expected]) -> None:
        """Check ledgers that an earlier call skipped together with those of this one."""
        self._expected.extend(skipped)

    def confirm(self) -> None:
        """List the bucket, and check all ledgers that were written or expected; without any, list nothing.

        Raises the first `standing_error`. Removes written ledgers with an error again; all of them if the bucket cannot be listed. Raises
        `UncertainWriteError` if removing fails.
        """
        expected, self._expected = self._expected, []
        if not expected:
            return
        try:
            errors = [error for error in confirm(self.bucket, expected) if error is not None]
        except BaseException as error:
            self.bucket.expire()
            take_back(self.bucket.raw_store, [one.key for one in expected if one.is_new], error)
            raise
        if errors:
            raise errors[0]

    def _require_first(self, claim: Claim) -> None:
        """Raise `LedgerExistsError` if this call has written another ledger of the id."""
        for one in self._expected:
            is_other = one.claim.length is None or not one.claim.agrees_with(claim)
            if one.claim.ledger_id == claim.ledger_id and is_other:
                reason = (
                    f"the same call has already written another ledger {claim.ledger_id}; ids are unique in a cluster"
                )
                raise LedgerExistsError(reason, key=one.key.index_key)


_current: ContextVar[Admission | None] = ContextVar("ledgerfs-admission", default=None)


@contextmanager
def together(bucket: Bucket) -> Iterator[Admission]:
    """Share one listing among all ledgers that are written in this context; the outermost ``with`` confirms them all at its end."""
    outer = _current.get()
    if outer is not None and outer.bucket is bucket:
        yield outer
        return
    admission = Admission(bucket)
    token = _current.set(admission)
    try:
        yield admission
    finally:
        _current.reset(token)
        admission.confirm()


def _refusal(taken: TakenIds, claim: Claim) -> LedgerfsError | None:
    """Return why a ledger may not be written beside those of a listing; None if it may be."""
    return _hiding(taken.catalog, claim, ()) or taken.refusal(claim)


def _taken_back(error: LedgerExistsError | InvalidNameError) -> LedgerfsError:
    return type(error)(f"{error.reason}. The new ledger is removed again", key=error.key)
