"""Copy ledgers from bucket to bucket: write each as Pulsar would have, and read it back before it counts as copied.

Ledgers keep their uuid, so a broker that uses the copy finds them. Existing ledgers are left alone, so an interrupted copy resumes when it
is started again. A ledger exists if the target has one of the same topic, id, last entry, length and, if both are known, creation time.
Ledgers of other topics do not matter, since two clusters may be copied into one bucket.

A copy under another id names its source ledger, so that the next copy of the same one, under any id, finds its messages.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby, islice
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import LEDGER, is_sound
from ledgerfs.catalog.findings import Severity
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.missing_ledgers import GapKind
from ledgerfs.catalog.partitioned_names import partitions_of, require_own_name
from ledgerfs.catalog.reader import ReaderOfCopies
from ledgerfs.catalog.same_messages import SameMessages, is_own_id
from ledgerfs.errors import (
    BucketNotFoundError,
    CorruptLedgerError,
    LedgerExistsError,
    LedgerfsError,
    RefusedLedgerError,
    StaleObjectError,
    StoreUnreachableError,
)
from ledgerfs.layouts.pulsar_blob.new_ledger import NewLedger, new_key, require_block_size
from ledgerfs.layouts.pulsar_blob.writer import WrittenLedger
from ledgerfs.storage.ordered_map import ordered_map
from ledgerfs.writing.admission import Expected, confirm, is_current
from ledgerfs.writing.claims import Claim, IfExists, TakenIds
from ledgerfs.writing.deletion import remove_ledger
from ledgerfs.writing.sources import OffloadedLedger
from ledgerfs.writing.write import (
    copied_metadata,
    copied_user_metadata,
    own_block_size,
    ref_of,
    require_new_ids,
    write_ledger,
)

if TYPE_CHECKING:
    from ledgerfs.messages.transforms.unbatch import Unbatch

_SMALL_LEDGER = 16 << 20
"""Ledgers of up to so many bytes are copied several at a time: they mostly wait for responses."""

_THREADS = 4

_LOOKED_AT_TOGETHER = 10_000
"""After so many ledgers the target is listed again to confirm them; so many results are in memory."""

CatalogRows = npt.NDArray[np.int64]
"""Rows of a catalog's table of ledgers."""


class CopyOutcome(StrEnum):
    """The outcome of copying a ledger."""

    COPIED = "copied"
    PLANNED = "planned"
    """It would be copied: this is a dry run."""
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CopiedLedger:
    """One ledger of the source, and its outcome.

    Attributes
    ----------
    uuid, ledger_id
        Its name in the target.
    error
        Why it is not there; None if it is.

    """

    source: LedgerRef
    outcome: CopyOutcome
    ledger_id: int
    uuid: str | None
    error: LedgerfsError | None = None


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """How ledgers are copied.

    Attributes
    ----------
    block_size
        Bytes of each block; None for each ledger's own, with which data objects are the same byte for byte.
    if_exists
        Action for a ledger of which the target has another copy.
    new_uuid
        Whether copies get new uuids: brokers do not find them, and existing copies stay.
    transform
        Splits batches, in copies with other ids; None leaves entries as they are.
    first_ledger_id
        Id of the first copy, which the others follow; None keeps each ledger's own.
    check
        Whether to read back each copy.
    dry_run
        Whether to write nothing.

    """

    block_size: int | None = None
    if_exists: IfExists = IfExists.SKIP
    new_uuid: bool = False
    transform: "Unbatch | None" = None
    first_ledger_id: int | None = None
    check: bool = True
    dry_run: bool = False


def rows_to_copy(catalog: Catalog, managed_ledgers: Sequence[str | None] | None, *, all_copies: bool) -> CatalogRows:
    """Return the ledgers of some topics, or of all, in the order of topics and ids, as rows of ``catalog.ledgers``.

    With ``all_copies`` also further complete copies: one of them may be the copy that a broker uses.
    """
    table = catalog.ledgers
    wanted = (table["copy"] == 0) | (all_copies & is_sound(table))
    if managed_ledgers is not None:
        named = [row for row, name in enumerate(catalog.names) if name in managed_ledgers]
        wanted &= np.isin(table["name"], named)
    return np.flatnonzero(wanted)


def copy_rows(
    source: Bucket,
    target: Bucket,
    rows: CatalogRows,
    options: CopyOptions | None = None,
    progress: Progress | None = None,
    *,
    catalog: Catalog | None = None,
) -> Iterator[CopiedLedger]:
    """Copy the rows (`rows_to_copy`) of a catalog, and yield the outcome of each; without ``catalog`` that of ``source`` is used.

    Yields a ledger that fails at once, with its error. Yields the others in order, after a new listing of the target contains them, whole
    and without a conflict. Copies small ledgers four at a time, others one by one, so that at most four blocks are in memory. Raises
    `StoreUnreachableError`, and `RefusedLedgerError` for a block size that the target refuses.
    """
    options = options or CopyOptions()
    if options.block_size is not None:
        require_block_size(options.block_size, target.raw_store.writes.smallest_part)
    catalog = source.catalog if catalog is None else catalog
    table = catalog.ledgers[["length", "last_entry"]][rows]
    total = sum(table["length"].tolist()) + 12 * (sum(table["last_entry"].tolist()) + len(table))
    meter = _Meter(total, progress)
    there = TakenIds(_listed(target, options))
    copy = _Copy(source, catalog, _with_other_copies(catalog), SameMessages(catalog), target, options, there, meter)
    numbered = ((number, catalog.ref(row)) for number, row in enumerate(rows.tolist()))
    while some := list(islice(numbered, _LOOKED_AT_TOGETHER)):
        yield from _confirmed(target, copy.run_all(some))


def _listed(target: Bucket, options: CopyOptions) -> Catalog:
    try:
        return target.list_to_write()
    except BucketNotFoundError:
        # Copying has made the folder before.
        if not options.dry_run:
            raise
        return Catalog.of([], np.empty(0, LEDGER))


def _with_other_copies(catalog: Catalog) -> frozenset[tuple[str | None, int]]:
    gaps = catalog.gaps
    # A data object without a readable index does not count: it is unknown which ledger it is a copy of.
    is_reported = gaps["is_beside"] & np.isin(gaps["kind"], [GapKind.DATA_LOST, GapKind.CONTRADICTED])
    names, ids = (gaps[column][is_reported].tolist() for column in ("name", "ledger_id"))
    return frozenset((catalog.names[name], ledger_id) for name, ledger_id in zip(names, ids, strict=True))


def _confirmed(target: Bucket, made: "Iterator[_Standing]") -> Iterator[CopiedLedger]:
    """Yield the outcomes of ledgers, after a new listing of the target."""
    standing: list[tuple[CopiedLedger, Expected]] = []
    for reported, expected in made:
        if expected is None:
            yield reported
        else:
            standing.append((reported, expected))
    if standing:
        errors = confirm(target, [expected for _, expected in standing])
        for (reported, _), error in zip(standing, errors, strict=True):
            yield reported if error is None else replace(reported, outcome=CopyOutcome.FAILED, error=error)


_Standing = tuple[CopiedLedger, Expected | None]
"""The outcome of a ledger, and the ledger that the target's next listing has to contain; None for a failed one, and in a dry run."""


class _Meter:
    """Adds up bytes from several threads."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total = total
        self._progress = progress
        self._done = 0
        self._lock = Lock()

    def add(self, size: int) -> None:
        """Count copied bytes."""
        with self._lock:
            self._done += size
            if self._progress is not None:
                self._progress("offloading", self._done, self._total)


@dataclass(frozen=True, slots=True)
class _Copy:
    """One run of copying.

    Attributes
    ----------
    catalog
        The catalog of the source at the start.
    contradicted
        Managed ledgers and ids of ledgers in the source with a copy of other contents.
    same_messages
        Ledgers in the source that have the same messages under different ids.
    there
        The ids in the target at the start.

    """

    source: Bucket
    catalog: Catalog
    contradicted: frozenset[tuple[str | None, int]]
    same_messages: SameMessages
    target: Bucket
    options: CopyOptions
    there: TakenIds
    meter: _Meter

    def run_all(self, numbered: Sequence[tuple[int, LedgerRef]]) -> Iterator[_Standing]:
        """Copy ledgers, small ones several at a time."""
        for is_small, some in groupby(numbered, lambda one: one[1].records_size <= _SMALL_LEDGER):
            if is_small:
                yield from ordered_map(self.run, some, _THREADS, "ledgerfs-copy")
            else:
                yield from map(self.run, some)

    def run(self, numbered: tuple[int, LedgerRef]) -> _Standing:
        """Copy one ledger."""
        number, ref = numbered
        first = self.options.first_ledger_id
        ledger_id = ref.ledger_id if first is None else first + number
        uuid = self._uuid(ref)
        reported = 0

        def tell(_: str, done: int, __: int | None) -> None:
            nonlocal reported
            self.meter.add(done - reported)
            reported = done

        try:
            self._require_agreed(ref)
            claim = self._claim(ref, ledger_id, uuid)
            found = self._found(claim, uuid) if first is None else self._made(claim)
            is_dry = self.options.dry_run
            if found is not None:
                expected = None if is_dry else Expected(_claim_of_skipped(claim, found), found.uuid, is_new=False)
                return CopiedLedger(ref, CopyOutcome.SKIPPED, found.ledger_id, found.uuid), expected
            self._require_own_name(claim)
            _require_sound(ref)
            if is_dry:
                return CopiedLedger(ref, CopyOutcome.PLANNED, ledger_id, uuid), None
            written = self._write(ref, ledger_id, uuid, tell)
        except StoreUnreachableError:
            raise
        except LedgerfsError as error:
            return CopiedLedger(ref, CopyOutcome.FAILED, ledger_id, uuid, error), None
        finally:
            tell("", ref.records_size, None)
        expected = Expected.of(claim, written)
        return CopiedLedger(ref, CopyOutcome.COPIED, ledger_id, expected.uuid), expected

    def _uuid(self, ref: LedgerRef) -> str | None:
        """Return the uuid of a copy, None for a new one."""
        if self.options.new_uuid or self.options.first_ledger_id is not None:
            return None
        return self.source.source.uuid_of_copy(ref)

    def _require_agreed(self, ref: LedgerRef) -> None:
        """Raise `CorruptLedgerError` for a ledger whose copies contradict each other: copying one would hide the contradiction."""
        if (ref.managed_ledger, ref.ledger_id) in self.contradicted:
            reason = "another copy of the ledger has other entries (see `ledgerfs verify`); neither of them is copied"
            raise CorruptLedgerError(reason, key=ref.key)

    def _require_own_name(self, claim: Claim) -> None:
        """Raise `InvalidNameError` for a ledger that would hide partitions in the target, unless it does so in the source as well."""
        if claim.managed_ledger is not None and not claim.may_hide:
            require_own_name(self.there.catalog, claim.managed_ledger)

    def _claim(self, ref: LedgerRef, ledger_id: int, uuid: str | None) -> Claim:
        """Return the claim for the target; copies of an earlier run from the same bucket are not conflicts."""
        created_ms = self.source.source.created_ms_of(ref)
        twins = frozenset(one.ledger_id for one in self.same_messages.others_of(ref))
        may_hide = ref.managed_ledger is not None and bool(partitions_of(self.catalog, ref.managed_ledger))
        if self.options.first_ledger_id is not None:
            if twins:
                named = ", ".join(map(str, sorted(twins)))
                reason = f"the source has the same messages twice, also in ledger {named}; remove one of the two first"
                raise RefusedLedgerError(reason, key=ref.key)
            return Claim(
                ref.managed_ledger,
                ledger_id,
                IfExists.FAIL,
                created_ms=created_ms,
                origin=ref.root,
                may_hide=may_hide,
            )
        copies = [] if uuid is None else self.catalog.copies_of(ref.managed_ledger, ledger_id)
        friends = frozenset(one.uuid for one in copies)
        policy = self.options.if_exists
        return Claim(
            ref.managed_ledger,
            ledger_id,
            policy,
            is_kept=True,
            last_entry=ref.last_entry,
            length=ref.length,
            created_ms=created_ms,
            friends=friends,
            origin=ref.root,
            twins=twins,
            may_hide=may_hide,
        )

    def _made(self, claim: Claim) -> LedgerRef | None:
        """Return an earlier run's copy of the same ledger, under an id that fits this run; None if it has to be written.

        Raises `LedgerExistsError` for a copy under another id, which is the ledger's own, or was chosen.
        """
        found = self.there.with_messages_of(claim)
        is_any = is_own_id(claim.ledger_id) and all(one.origin is not None for one in found)
        if self.options.if_exists is IfExists.SKIP and len({one.ledger_id for one in found}) == 1:
            one = next((one for one in found if is_any or one.ledger_id == claim.ledger_id), None)
            if one is not None and is_current(self.target.raw_store, one):
                return one
        refusal = self.there.refusal(claim)
        if refusal is not None:
            raise refusal
        return None

    def _found(self, claim: Claim, uuid: str | None) -> LedgerRef | None:
        """Return the ledger of the target for which this one is skipped; None if it has to be written. Raises `LedgerExistsError`."""
        named = None if uuid is None else self.there.copy(claim.ledger_id, uuid)
        if named is not None:
            is_same = claim.is_same(named)
            if claim.if_exists is IfExists.FAIL or not is_same:
                what = "this ledger" if is_same else "another ledger of this name, or an incomplete copy of this one"
                raise LedgerExistsError(f"the target already has {what}", key=named.key)
        refusal = self.there.refusal(claim)
        if refusal is not None:
            raise refusal
        same = [named] if named is not None else []
        if claim.if_exists is IfExists.SKIP and named is None:
            same = [one for one in self.there.same(claim) if one.uuid not in claim.friends]
        return next((one for one in same if is_current(self.target.raw_store, one)), None)

    def _new_ledger(self, ref: LedgerRef, ledger_id: int, uuid: str | None) -> NewLedger:
        """Return the copy to write. Raises `CorruptLedgerError`, `RefusedLedgerError`."""
        reader = self.source.reader(ref)
        require_new_ids(ledger_id, ref.ledger_id, self.options.transform)
        metadata = copied_metadata(reader, ledger_id, ref.managed_ledger)
        self.source.source.require_copyable(ref, metadata.managed_ledger, metadata.state)
        return NewLedger(
            new_key(ledger_id, uuid),
            metadata if ledger_id == ref.ledger_id else metadata.made_of(ref.root),
            copied_user_metadata(reader, ref.managed_ledger),
            own_block_size(reader) if self.options.block_size is None else self.options.block_size,
            self.options.transform,
        )

    def _write(self, ref: LedgerRef, ledger_id: int, uuid: str | None, tell: Progress) -> WrittenLedger:
        ledger = self._new_ledger(ref, ledger_id, uuid)
        reader = self.source.reader(ref)
        if isinstance(reader, ReaderOfCopies):
            reader.require_agreement()
        written = write_ledger(self.target, ledger, OffloadedLedger(self.source.reader(ref)), tell)
        if self.options.check:
            self._read_back(written)
        return written

    def _read_back(self, written: WrittenLedger) -> None:
        """Read the whole copy as `verify` does; removes a copy that is not whole, and raises `CorruptLedgerError`."""
        ref = ref_of(written)
        check = self.target.source.check_ledger(self.target.uncached_reader(ref), lambda _: None)
        wrong = [finding for finding in check.findings if finding.severity is not Severity.REMARK]
        if check.entries != written.offload_index.metadata.entries and not wrong:
            raise StaleObjectError("the copy was replaced or removed before it was read back", key=written.data.key)
        if wrong:
            remove_ledger(self.target, written.ledger.key)
            reason = f"the copy was damaged when it was read back, and was removed: {wrong[0].message}"
            raise CorruptLedgerError(reason, key=wrong[0].key, offset=wrong[0].offset)


def _require_sound(ref: LedgerRef) -> None:
    if not ref.is_sound:
        reason = "the ledger is damaged (see `ledgerfs verify`); it is not copied"
        raise CorruptLedgerError(reason, key=ref.key)


def _claim_of_skipped(claim: Claim, found: LedgerRef) -> Claim:
    """Return the claim on which the next listing has to confirm an existing ledger."""
    return replace(
        claim,
        ledger_id=found.ledger_id,
        if_exists=IfExists.SKIP if claim.if_exists is IfExists.FAIL else claim.if_exists,
        last_entry=found.last_entry,
        length=found.length,
        created_ms=found.created_ms or claim.created_ms,
    )
