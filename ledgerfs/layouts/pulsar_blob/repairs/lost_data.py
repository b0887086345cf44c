"""Repairs of indexes without a data object: they are kept, since they tell of a ledger, unless there is a complete copy of it."""

from collections.abc import Iterator

from ledgerfs.catalog.findings import Severity
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.repairs import Repair
from ledgerfs.errors import AccessDeniedError, ObjectNotFoundError, StoreError
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.layouts.pulsar_blob.remains import INDEX_WITHOUT_DATA
from ledgerfs.layouts.pulsar_blob.repairs.actions import DeleteObject
from ledgerfs.layouts.pulsar_blob.repairs.survey import Survey
from ledgerfs.layouts.pulsar_blob.repairs.user_metadata import foreign_format


def look_at_lost(survey: Survey, lost: LedgerRef) -> Iterator[Repair]:
    """Yield the repair of an index whose data object is gone."""
    head = survey.store.head(lost.object("index").key)

    def found(severity: Severity, reason: str, action: DeleteObject | None = None) -> Repair:
        return Repair(
            INDEX_WITHOUT_DATA,
            severity,
            reason,
            lost.object("index").key,
            lost.ledger_id,
            topic_of(lost.managed_ledger),
            action,
        )

    if (refusal := _refusal(survey, lost)) is not None:
        yield found(
            Severity.UNCHECKED, f"left alone: the store does not answer whether its data object is there: {refusal}"
        )
        return
    copies = [] if lost.managed_ledger is None else survey.copies_of(lost.ledger_id)
    copies = [copy for copy in copies if copy.managed_ledger == lost.managed_ledger]
    agreeing = [copy for copy in copies if copy.agrees_with(lost)]
    same = min(agreeing, key=lambda copy: copy.layout not in survey.layouts, default=None)
    left_alone = survey.too_young(head.stat.modified_ms) or foreign_format(head.metadata)
    if left_alone is not None:
        yield found(Severity.DAMAGE if same is None else Severity.REMARK, f"left alone: {left_alone}")
        return
    unseen = None if same is None else survey.why_not_seen(same)
    if unseen is not None:
        yield found(Severity.DAMAGE, unseen)
        return
    if same is not None:
        action = DeleteObject("delete-index", head.stat, lost.object("data").key, survey.stats_of(same))
        yield found(Severity.REMARK, f"a complete copy of the same ledger is {same.key}", action)
        return
    reason = f"kept: there is no complete copy of this ledger with {lost.entries} entries of {lost.length} bytes"
    if copies:
        other = copies[0].objects[-1][1].key
        reason += f" (the copy {other} has {copies[0].entries} of {copies[0].length}, or was created at another time)"
    advice = "copy the data object from a backup, or offload again while BookKeeper has the ledger"
    yield found(Severity.DAMAGE, f"{reason}; {advice}")


def _refusal(survey: Survey, lost: LedgerRef) -> str | None:
    """Return why the store does not answer whether the data object is there; None if it answers."""
    try:
        survey.store.head(lost.object("data").key)
    except ObjectNotFoundError:
        return None
    except (AccessDeniedError, StoreError) as error:
        return error.reason
    return None
