"""The plan: everything that `verify` finds quickly, and more that concerns only who may write, each with what can be done about it."""

from collections.abc import Collection, Iterable, Iterator

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import BucketOrUrl, bucket_at
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.ledgers.dialect import Progress, RepairRequest
from ledgerfs.ledgers.repairs import Repair
from ledgerfs.upkeep.repair.carrying_out import RepairPlan
from ledgerfs.upkeep.verification import Finding, Severity
from ledgerfs.upkeep.verification.verify import verify_listed

DAY_SECONDS = 86400.0

_ADVICE = (
    "repair cannot mend that: copy the object from a backup, or offload the ledger again while BookKeeper still has it"
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
    """List a bucket and return what is wrong with it, and what can be done; changes nothing.

    Parameters
    ----------
    bucket
        The bucket, or its URL; it is listed anew.
    topic
        Whose the ledgers are of which nothing in the bucket tells the topic.
    ledgers
        Look at these ledger ids only.
    older_than_s
        Leave alone what was written in the last so many seconds: a broker may be about to go on with it.
    full
        Read every byte, as `verify` does without ``quick``: what is found so cannot be mended, but is named.
    metadata
        Ask for the user metadata of every object, a request each, where the store keeps any.
    progress
        Told how far the work is.

    Raises
    ------
    InvalidNameError
        ``topic`` is no topic.
    NotFoundError, AccessDeniedError, StoreError
        The bucket cannot be listed; `StoreUnreachableError` at any time.

    """
    managed_ledger = None if topic is None else managed_ledger_of(topic)
    bucket = bucket_at(bucket)
    catalog = bucket.refresh(progress)
    store = bucket.store.store
    request = RepairRequest(
        store=store,
        catalog=catalog,
        open_ledger=bucket.uncached_reader,
        managed_ledger=managed_ledger,
        ledgers=ledgers,
        older_than_s=older_than_s,
        metadata=metadata,
        progress=progress,
    )
    items = [repair for dialect in bucket.dialects for repair in dialect.repairs(request)]
    items += _unmendable(bucket, ledgers, verify_listed(bucket, catalog, quick=not full, progress=progress).findings)
    return RepairPlan(bucket, tuple(items))


def _unmendable(bucket: Bucket, ledgers: Collection[int] | None, findings: Iterable[Finding]) -> Iterator[Repair]:
    """Yield what `verify` finds and nobody can mend from the bucket alone."""
    told = frozenset(kind for dialect in bucket.dialects for kind in dialect.repaired_kinds)
    for finding in findings:
        is_meant = ledgers is None or finding.ledger_id in ledgers
        if finding.severity is Severity.REMARK or finding.kind in told or not is_meant:
            continue
        has_advice = finding.severity is not Severity.DAMAGE or finding.kind == "truncated-offload"
        message = finding.message if has_advice else f"{finding.message}; {_ADVICE}"
        yield Repair(finding.kind, finding.severity, message, finding.key, finding.ledger_id, finding.topic)
