"""The plan of repairs: for all that a quick `verify` finds, and for leftovers that only matter to those who may write."""

from collections.abc import Collection, Iterable, Iterator

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import BucketOrUrl, bucket_at
from ledgerfs.catalog.layout import Progress, RepairRequest
from ledgerfs.catalog.layouts_known import AUTO
from ledgerfs.catalog.partitioned_names import require_own_name
from ledgerfs.catalog.repairs import Repair
from ledgerfs.errors import UnsupportedWriteError
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.repair.carrying_out import RepairPlan
from ledgerfs.verification import Finding, Severity
from ledgerfs.verification.verify import verify_listed

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
    full: bool = False,
    metadata: bool = True,
    progress: Progress | None = None,
) -> RepairPlan:
    """List a bucket, and return the repairs of all that is wrong with it; changes nothing.

    Parameters
    ----------
    bucket
        The bucket, or its URL; it is listed again.
    topic
        Owner of the ledgers whose topic nothing in the bucket tells.
    ledgers
        Only these ledger ids; None for all.
    older_than_s
        Leave younger objects alone, in seconds: a broker may still be writing them.
    full
        Read every byte, as `verify` does without ``quick``: the damage found so cannot be repaired, but is named.
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
        reason = f"{bucket.source.what} cannot be repaired from here; `ledgerfs verify` names what is damaged"
        raise UnsupportedWriteError(reason, key=bucket.url)
    layouts = bucket.objects.opened_layouts
    # An id that a ledger of another layout has is no less taken.
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
        ledgers=ledgers,
        older_than_s=older_than_s,
        metadata=metadata,
        progress=progress,
    )
    items = [repair for layout in layouts for repair in layout.repairs(request)]
    read = catalog if bucket.layout == AUTO else bucket.load_catalog(progress, listed=True)
    items += _unmendable(bucket, ledgers, verify_listed(bucket, read, quick=not full, progress=progress).findings)
    return RepairPlan(bucket, tuple(items))


def _unmendable(bucket: Bucket, ledgers: Collection[int] | None, findings: Iterable[Finding]) -> Iterator[Repair]:
    """Yield the findings of `verify` that cannot be repaired from the bucket alone."""
    told = frozenset(kind for layout in bucket.objects.opened_layouts for kind in layout.repaired_kinds)
    for finding in findings:
        is_meant = ledgers is None or finding.ledger_id in ledgers
        if finding.severity is Severity.REMARK or finding.kind in told or not is_meant:
            continue
        has_advice = finding.severity is not Severity.DAMAGE or finding.kind == "truncated-offload"
        message = finding.message if has_advice else f"{finding.message}; {_ADVICE}"
        yield Repair(finding.kind, finding.severity, message, finding.key, finding.ledger_id, finding.topic)
