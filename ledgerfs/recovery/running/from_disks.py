"""Ledgers that only disks of bookies have, on their way into the bucket, before anything else of a recovery is done."""

from collections.abc import Callable

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.catalog_rows import NO_UUID
from ledgerfs.ledgers.dialect import Progress
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.recovery.planning.planning import Wanted
from ledgerfs.writing.copy_ledgers import copy_ledgers

Said = Callable[[str], None]
"""Is told what is done now, a sentence each."""


def offload_from_disks(disks: Bucket, bucket: Bucket, wanted: Wanted, progress: Progress, say: Said) -> dict[str, str]:
    """Copy what only disks have into the bucket; return {managed ledger: why not all of it is there}.

    A ledger of which a broker has offloaded all stays as it is in the bucket, whatever disks have of it.

    Raises the errors of the bucket and of the disks.
    """
    on_disks = disks.refresh(progress)
    topics = [topic_of(name) for name in wanted.chosen(name for name in on_disks.managed_ledgers if name is not None)]
    if not topics:
        return {}
    say(f"copying ledgers of {len(topics):,} topics from disks into the bucket, those that it does not have")
    report = copy_ledgers(disks, bucket, topics=topics, allow_incomplete=True, progress=progress, catalog=on_disks)
    say(f"copied {report.copied:,} ledgers from disks; {report.skipped:,} were there")
    if not report.failed:
        return {}
    catalog = bucket.list_to_write(progress)
    return {
        one.source.managed_ledger: f"ledger {one.source.ledger_id} could not be copied from disks: {one.error}"
        for one in report.failed
        if one.source.managed_ledger is not None and not _has_all(catalog, one.source)
    }


def _has_all(catalog: Catalog, on_disks: LedgerRef) -> bool:
    """Whether the bucket has all of a ledger: brokers offload closed ones alone, and what came from disks has as much as these."""
    return any(
        ref.is_sound and (ref.uuid != NO_UUID or ref.entries >= on_disks.entries)
        for ref in catalog.copies_of(on_disks.managed_ledger, on_disks.ledger_id)
    )
