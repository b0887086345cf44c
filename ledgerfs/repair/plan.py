"""Plan repairs, for all that a quick `verify` finds and for unfinished uploads, and apply them."""

import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import BucketOrUrl, bucket_at
from ledgerfs.catalog.layout import Progress, RepairRequest
from ledgerfs.catalog.layouts_known import AUTO
from ledgerfs.catalog.partitioned_names import require_own_name
from ledgerfs.catalog.repairs import Repair
from ledgerfs.errors import LedgerfsError, StoreUnreachableError, UnsupportedWriteError
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.storage.object_store import RawStore
from ledgerfs.verification import Finding, Severity
from ledgerfs.verification.verify import verify_listed


@dataclass(frozen=True, slots=True)
class RepairOutcome:
    """A repair after its attempt; with an error, it was not applied."""

    repair: Repair
    error: LedgerfsError | None


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """The repairs of a bucket; `carry_out` applies them."""

    bucket: Bucket
    items: tuple[Repair, ...]

    @property
    def to_do(self) -> list[Repair]:
        """The repairs to apply, in their order."""
        ranked = [(item.action.rank, number) for number, item in enumerate(self.items) if item.action is not None]
        return [self.items[number] for _, number in sorted(ranked)]

    @property
    def left(self) -> list[Repair]:
        """The findings that cannot be repaired."""
        return [item for item in self.items if item.action is None]

    def carry_out(self) -> Iterator[RepairOutcome]:
        """Apply one repair after the other, each only if the bucket is unchanged since the plan; yield the outcomes.

        A failed repair does not stop the others, and stopping between two leaves no partial change. Raises `StoreUnreachableError`.
        """
        store = self.bucket.raw_store
        try:
            for repair in self.to_do:
                yield _carried_out(repair, store)
        finally:
            self.bucket.expire()


def _carried_out(repair: Repair, store: RawStore) -> RepairOutcome:
    try:
        if repair.action is not None:
            repair.action.run(store)
    except StoreUnreachableError:
        raise
    except LedgerfsError as error:
        return RepairOutcome(repair, error)
    return RepairOutcome(repair, None)


DAY_SECONDS = 86400.0

_ADVICE = (
    "this cannot be repaired: copy the object from a backup, or offload the ledger again while BookKeeper still has it"
)


def plan_repair(
    bucket: BucketOrUrl,
    *,
    topic: str | None = None,
    ledgers: Collection[int] | None = None,
    older_than_s: float = DAY_SECONDS,
    metadata: bool = True,
    progress: Progress | None = None,
) -> RepairPlan:
    """List a bucket, and return the repairs of all damage; changes nothing.

    Parameters
    ----------
    bucket
        The bucket, or its URL; it is listed again.
    topic
        Owner of ledgers whose topic the bucket does not contain.
    ledgers
        Only these ledger ids; None for all.
    older_than_s
        Leave younger objects alone, in seconds: a broker may still be writing them.
    metadata
        Check the user metadata of every object, a request each, if the store keeps any.
    progress
        Called with the progress.

    Raises
    ------
    InvalidNameError
        ``topic`` is not the name of a topic, or that of a partitioned one.
    NotFoundError, AccessDeniedError, StoreError
        The bucket cannot be listed. `StoreUnreachableError` is raised at any time.
    UnsupportedWriteError
        It is not a bucket.

    """
    managed_ledger = None if topic is None else managed_ledger_of(topic)
    bucket = bucket_at(bucket)
    if not bucket.has_objects:
        reason = f"{bucket.source.what} cannot be repaired from here; `ledgerfs verify` lists the damage"
        raise UnsupportedWriteError(reason, key=bucket.url)
    layouts = bucket.objects.opened_layouts
    # A ledger of another layout occupies its id as well.
    catalog = bucket.list_all(progress)
    if managed_ledger is not None:
        require_own_name(catalog, managed_ledger)
    request = RepairRequest(
        store=bucket.raw_store,
        catalog=catalog,
        list_all=bucket.list_all,
        layouts=frozenset(layout.number for layout in layouts),
        open_ledger=bucket.uncached_reader,
        managed_ledger=managed_ledger,
        ledgers=None if ledgers is None else frozenset(ledgers),
        older_than_ms=int(older_than_s * 1000),
        now_ms=int(time.time() * 1000),
        metadata=metadata,
        progress=progress,
    )
    items = [repair for layout in layouts for repair in layout.repairs(request)]
    read = catalog if bucket.layout == AUTO else bucket.load_catalog(progress, listed=True)
    items += _unmendable(bucket, ledgers, verify_listed(bucket, read, quick=True, progress=progress).findings)
    return RepairPlan(bucket, tuple(items))


def _unmendable(bucket: Bucket, ledgers: Collection[int] | None, findings: Iterable[Finding]) -> Iterator[Repair]:
    """Yield the findings of `verify` that cannot be repaired from the bucket alone."""
    reported = frozenset(kind for layout in bucket.objects.opened_layouts for kind in layout.repaired_kinds)
    for finding in findings:
        is_meant = ledgers is None or finding.ledger_id in ledgers
        if finding.severity is Severity.REMARK or finding.kind in reported or not is_meant:
            continue
        has_advice = finding.severity is not Severity.DAMAGE or finding.kind == "truncated-offload"
        message = finding.message if has_advice else f"{finding.message}; {_ADVICE}"
        yield Repair(finding.kind, finding.severity, message, finding.key, finding.ledger_id, finding.topic)
