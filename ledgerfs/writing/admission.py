"""What may be written into a bucket, told by the bucket as it is now, and looked at again when it is written.

Of two writers who publish the same ledger id, the later one sees the other one's ledger when it looks again, and takes its own back; if
both see each other, both do. So one at most is told that it has written, whatever either knew of the bucket before.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.dialects.pulsar_blob.ledger_group import take_back
from ledgerfs.dialects.pulsar_blob.writer import WrittenLedger
from ledgerfs.errors import LedgerExistsError, LedgerfsError, ObjectNotFoundError, StaleObjectError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.ledgers.dialect import Progress
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.storage.object_store import RawStore
from ledgerfs.writing.claims import Claim, IfExists, TakenIds, refused, standing_error

_LOOKS = 3
"""How often a bucket is listed for one ledger that somebody removes just when it is to be skipped."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A ledger that the next listing has to show, whole and without a rival.

    Attributes
    ----------
    claim
        With what its entries are known by.
    is_new
        Whether it was written just now, and is to be taken back if it does not stand; else it was there, and was relied on.

    """

    claim: Claim
    uuid: str
    is_new: bool

    @classmethod
    def of(cls, claim: Claim, written: WrittenLedger) -> "Expected":
        """Return what was written just now."""
        metadata = written.offload_index.metadata
        claim = replace(claim, last_entry=metadata.last_entry, length=metadata.length, created_ms=metadata.created_ms)
        return cls(claim, written.ledger.key.uuid, is_new=True)

    @property
    def key(self) -> LedgerKey:
        """The names of its objects."""
        return LedgerKey(self.uuid, self.claim.ledger_id, is_index=False)


def confirm(bucket: Bucket, expected: Sequence[Expected]) -> list[LedgerfsError | None]:
    """List a bucket anew, and return for each ledger why it does not stand there; None for those that do.

    What was written, and does not stand, is taken back. Raises what the store raises, and `UncertainWriteError`.
    """
    taken = TakenIds(bucket.refresh())
    errors = [standing_error(taken, one.claim, one.uuid) for one in expected]
    wrong = [(one, error) for one, error in zip(expected, errors, strict=True) if one.is_new and error is not None]
    if wrong:
        bucket.expire()
        take_back(bucket.raw_store, [one.key for one, _ in wrong], wrong[0][1])
    return [
        _taken_back(error) if one.is_new and isinstance(error, LedgerExistsError) else error
        for one, error in zip(expected, errors, strict=True)
    ]


def is_current(store: RawStore, ref: LedgerRef) -> bool:
    """Ask a store whether the objects of a ledger are still those that were listed."""
    for _, listed in reversed(ref.objects):
        try:
            found = store.head(listed.key).stat
        except ObjectNotFoundError:
            return False
        if found.size != listed.size or listed.version not in {"", found.version}:
            return False
    return True


class Admission:
    """The look at a bucket before and after one or more ledgers are written to it. For one thread.

    The bucket is listed when the first one is asked for, and again by `confirm`.
    """

    __slots__ = ("_expected", "_progress", "_taken", "bucket")

    def __init__(self, bucket: Bucket, progress: Progress | None = None) -> None:
        self.bucket = bucket
        self._progress = progress
        self._taken: TakenIds | None = None
        self._expected: list[Expected] = []

    @property
    def taken(self) -> TakenIds:
        """What the bucket had when it was asked first."""
        if self._taken is None:
            self._taken = TakenIds(self.bucket.refresh(self._progress))
        return self._taken

    def require_listed(self) -> None:
        """List the bucket now, for whoever decides by more than who has an id."""
        _ = self.taken

    def require_free(self, claim: Claim) -> None:
        """Raise `LedgerExistsError` if somebody has what is claimed."""
        rival = self.taken.rival(claim)
        if rival is not None:
            raise refused(claim, rival)
        one = next((one for one in self._of_id(claim.ledger_id) if _is_in_the_way(one.claim, claim)), None)
        if one is not None:
            reason = f"the same call has written another ledger {claim.ledger_id} just now; ids are unique in a cluster"
            raise LedgerExistsError(reason, key=one.key.index_key)

    def is_there(self, claim: Claim, measure: Callable[[], tuple[int, int]]) -> bool:
        """Whether the same ledger is in the bucket now, and is to be skipped; raises `LedgerExistsError` if another one has its id.

        A further copy of it (``NEW_COPY``) is never skipped, and is refused beside another one.
        ``measure`` returns the last entry and the length of what is to be written; it is asked where there is something to compare.
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
            # It has gone since the bucket was listed.
            self._taken = None
        reason = "the ledger comes and goes while it is looked for; somebody else is at work here"
        raise StaleObjectError(reason, key=f"ledger {claim.ledger_id}")

    def wrote(self, claim: Claim, written: WrittenLedger) -> None:
        """Note what was published."""
        self.bucket.expire()
        self._expected.append(Expected.of(claim, written))

    def confirm(self) -> None:
        """Look at all again that was written or skipped.

        Raises the first of what `standing_error` tells; what was written and does not stand is taken back, and all of it where the bucket
        cannot be looked at. `UncertainWriteError` says that this could not be done.
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
    """Share the looks at a bucket among all that is written within; the outermost ``with`` confirms all of it, however it ends."""
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
    """Whether what one call wrote keeps it from writing another one of this id."""
    is_beside = other.if_exists is IfExists.NEW_COPY and one.managed_ledger != other.managed_ledger
    return not (is_beside or (one.length is not None and one.agrees_with(other)))


def _taken_back(error: LedgerExistsError) -> LedgerExistsError:
    return LedgerExistsError(f"{error.reason}. Ours is removed again", key=error.key)
