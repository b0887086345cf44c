"""Which ledgers may be written into a bucket: it is listed before writing, and again afterwards.

Of two writers who publish the same ledger id, the later one sees the other's ledger in the second listing, and removes its own; if both see
each other, both do. So at most one of them succeeds, whatever they knew of the bucket before.
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
from ledgerfs.errors import InvalidNameError, LedgerExistsError, LedgerfsError, ObjectNotFoundError, StaleObjectError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.layouts.pulsar_blob.ledger_group import take_back
from ledgerfs.layouts.pulsar_blob.writer import WrittenLedger
from ledgerfs.storage.object_store import RawStore
from ledgerfs.writing.claims import Claim, IfExists, TakenIds, refused, standing_error

_LOOKS = 3
"""How often a bucket is listed for one ledger that somebody removes just before it is skipped."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A ledger that the next listing has to show, whole and without a rival.

    Attributes
    ----------
    claim
        With the last entry and the length, by which the same ledger is known.
    is_new
        Whether it was just written, and is removed again if the listing refuses it; otherwise it was there, and was skipped.

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
    """List a bucket again, and return for each ledger why it is not there, whole and without a rival; None if it is.

    New ledgers with an error are removed again. Raises the store's errors, and `UncertainWriteError` if removing fails.
    """
    taken = TakenIds(bucket.list_to_write())
    new = {one.uuid for one in expected if one.is_new}
    errors = [
        standing_error(taken, one.claim, one.uuid) or (_hiding(taken.catalog, one.claim, new) if one.is_new else None)
        for one in expected
    ]
    wrong = [(one, error) for one, error in zip(expected, errors, strict=True) if one.is_new and error is not None]
    if wrong:
        bucket.expire()
        take_back(bucket.raw_store, [one.key for one, _ in wrong], wrong[0][1])
    return [
        _taken_back(error) if one.is_new and isinstance(error, LedgerExistsError | InvalidNameError) else error
        for one, error in zip(expected, errors, strict=True)
    ]


def _hiding(catalog: Catalog, claim: Claim, new: Collection[str]) -> InvalidNameError | None:
    """Return the error if new ledgers hide partitions that have come meanwhile."""
    if claim.managed_ledger is None or claim.may_hide:
        return None
    try:
        require_own_name(catalog, claim.managed_ledger, new)
    except InvalidNameError as error:
        return error
    return None


def is_current(store: RawStore, ref: LedgerRef) -> bool:
    """Whether the objects of a ledger are still those that were listed: a HEAD each."""
    for _, listed in reversed(ref.objects):
        try:
            found = store.head(listed.key).stat
        except ObjectNotFoundError:
            return False
        if found.size != listed.size or listed.version not in {"", found.version}:
            return False
    return True


class Admission:
    """Lists a bucket before and after ledgers are written to it. For one thread.

    The first use lists it, and `confirm` does so again.
    """

    __slots__ = ("_expected", "_progress", "_taken", "bucket")

    def __init__(self, bucket: Bucket, progress: Progress | None = None) -> None:
        self.bucket = bucket
        self._progress = progress
        self._taken: TakenIds | None = None
        self._expected: list[Expected] = []

    @property
    def taken(self) -> TakenIds:
        """The ids that the bucket had at the first listing."""
        if self._taken is None:
            self._taken = TakenIds(self.bucket.list_to_write(self._progress))
        return self._taken

    def require_listed(self) -> None:
        """List the bucket now, for callers that need more of its catalog than the taken ids."""
        _ = self.taken

    def require_free(self, claim: Claim) -> None:
        """Raise `LedgerExistsError` if the id is taken, and `InvalidNameError` if the name is that of a partitioned topic."""
        if claim.managed_ledger is not None:
            require_own_name(self.taken.catalog, claim.managed_ledger)
        rival = self.taken.rival(claim)
        if rival is not None:
            raise refused(claim, rival)
        one = next((one for one in self._of_id(claim.ledger_id) if _is_in_the_way(one.claim, claim)), None)
        if one is not None:
            reason = f"the same call has written another ledger {claim.ledger_id} just now; ids are unique in a cluster"
            raise LedgerExistsError(reason, key=one.key.index_key)

    def is_there(self, claim: Claim, measure: Callable[[], tuple[int, int]]) -> bool:
        """Whether the same ledger is in the bucket now, and is to be skipped; raises `LedgerExistsError` if another one has its id.

        A further copy (``NEW_COPY``) is never skipped, and is refused if a different ledger has the id.
        ``measure`` returns the last entry and the length of the new ledger; it is only called if there is a ledger to compare with.
        """
        for _ in range(_LOOKS):
            if not self.taken.refs_of(claim.ledger_id) and not self._of_id(claim.ledger_id):
                return False
            if claim.last_entry is None:
                last_entry, length = measure()
                claim = replace(claim, last_entry=last_entry, length=length)
            self.require_free(claim)
            if claim.if_exists is IfExists.NEW_COPY:
                return False
            if self._of_id(claim.ledger_id):
                return True
            same = self.taken.same(claim)
            found = next((ref for ref in same if is_current(self.bucket.raw_store, ref)), None)
            if found is not None:
                self._expected.append(Expected(claim, found.uuid, is_new=False))
            if found is not None or not same:
                return found is not None
            # It was removed since the bucket was listed.
            self._taken = None
        reason = "the ledger comes and goes while it is looked for; somebody else is at work here"
        raise StaleObjectError(reason, key=f"ledger {claim.ledger_id}")

    def wrote(self, claim: Claim, written: WrittenLedger) -> None:
        """Note a ledger that was published."""
        self.bucket.expire()
        self._expected.append(Expected.of(claim, written))

    @property
    def skipped(self) -> list[Expected]:
        """The ledgers that were there already, and have to be at the end."""
        return [one for one in self._expected if not one.is_new]

    def expect(self, skipped: Iterable[Expected]) -> None:
        """Check ledgers that an earlier call skipped together with those of this one."""
        self._expected.extend(skipped)

    def confirm(self) -> None:
        """List the bucket again, and check all ledgers that were written or skipped.

        Raises the first `standing_error`. Written ledgers with an error are removed again; if the bucket cannot be listed, all written ones
        are. Raises `UncertainWriteError` if removing fails.
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

    def _of_id(self, ledger_id: int) -> list[Expected]:
        return [one for one in self._expected if one.claim.ledger_id == ledger_id]


_current: ContextVar[Admission | None] = ContextVar("ledgerfs-admission", default=None)


@contextmanager
def together(bucket: Bucket) -> Iterator[Admission]:
    """Share two listings among all ledgers that are written within; the outermost ``with`` confirms them all, however it ends."""
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


def _is_in_the_way(one: Claim, other: Claim) -> bool:
    """Whether a ledger that this call wrote keeps it from writing another one of the same id."""
    return one.length is None or not one.agrees_with(other)


def _taken_back(error: LedgerExistsError | InvalidNameError) -> LedgerfsError:
    return type(error)(f"{error.reason}. Ours is removed again", key=error.key)
