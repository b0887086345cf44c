"""The plan: everything that `verify` finds quickly, and more that concerns only who may write, each with what can be done about it."""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial

from ledgerfs.errors import LedgerfsError, ObjectNotFoundError, StaleObjectError, StoreUnreachableError
from ledgerfs.formats.object_names import KeyKind
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.vfs.bucket import Bucket
from ledgerfs.vfs.catalog import key_of
from ledgerfs.vfs.layout import Progress
from ledgerfs.vfs.ordered_map import ordered_map
from ledgerfs.vfs.repair.leftovers import look_at_part, look_at_uploads, part_names
from ledgerfs.vfs.repair.lost_data import look_at_lost
from ledgerfs.vfs.repair.repairs import (
    DATA_WITHOUT_INDEX,
    GCS_PART,
    INDEX_WITHOUT_DATA,
    NO_VERSION_KEY,
    UNREADABLE_INDEX,
    Repair,
    RepairPlan,
)
from ledgerfs.vfs.repair.survey import Survey
from ledgerfs.vfs.repair.user_metadata import look_at_metadata
from ledgerfs.vfs.verification import Finding, Severity
from ledgerfs.vfs.verification.verify import verify_listed

DAY_SECONDS = 86400.0

_OWN_KINDS = frozenset({DATA_WITHOUT_INDEX, INDEX_WITHOUT_DATA, UNREADABLE_INDEX, NO_VERSION_KEY})
_PART_THREADS = 16
_ADVICE = (
    "repair cannot mend that: copy the object from a backup, or offload the ledger again while BookKeeper still has it"
)


def plan_repair(
    bucket: Bucket,
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
        The bucket; it is listed anew.
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
    survey = Survey.of(bucket, managed_ledger, ledgers, older_than_s, progress)
    items = [*_unpaired(survey), *_leftovers(survey)]
    if metadata:
        items += look_at_metadata(survey)
    items += _unmendable(survey, verify_listed(bucket, survey.catalog, quick=not full, progress=progress).findings)
    return RepairPlan(bucket, tuple(items))


def _unpaired(survey: Survey) -> Iterator[Repair]:
    """Yield what can be done about pairs of which one object is missing or unreadable."""
    catalog = survey.catalog
    orphans = [key for key in map(key_of, catalog.orphans) if survey.is_meant(key.ledger_id)]
    bad = [one for one in catalog.bad_indexes if survey.is_meant(one.key.ledger_id)]
    if orphans or bad:
        # numba, which these import, is not needed where every pair is one.
        from ledgerfs.vfs.repair.bad_indexes import look_at_bad_index
        from ledgerfs.vfs.repair.orphans import look_at_orphan
        from ledgerfs.vfs.repair.rivals import one_of_each

        found: list[Repair] = []
        for done, key in enumerate(orphans, 1):
            found += _guarded(DATA_WITHOUT_INDEX, key.data_key, key.ledger_id, partial(look_at_orphan, survey, key))
            survey.say("reading data without index", done, len(orphans))
        for done, one in enumerate(bad, 1):
            look = partial(look_at_bad_index, survey, one)
            found += _guarded(UNREADABLE_INDEX, one.key.index_key, one.key.ledger_id, look)
            survey.say("reading data of unreadable indexes", done, len(bad))
        yield from one_of_each(survey, found)
    for row in catalog.lost:
        lost = catalog.ref_of(row)
        if survey.is_meant(lost.ledger_id):
            yield from _guarded(INDEX_WITHOUT_DATA, lost.index.key, lost.ledger_id, partial(look_at_lost, survey, lost))


def _leftovers(survey: Survey) -> Iterator[Repair]:
    yield from look_at_uploads(survey)
    names = part_names(survey)

    def look(name: str) -> list[Repair]:
        return list(_guarded(GCS_PART, name, None, lambda: [look_at_part(survey, name)]))

    for repairs in ordered_map(look, names, _PART_THREADS, "ledgerfs-head"):
        yield from repairs
    more = survey.catalog.others.counts.get(KeyKind.GCS_PART, 0) - len(names)
    if names and more:
        yield Repair(GCS_PART, Severity.REMARK, f"{more} more of them, which were not looked at: repair once more")


def _unmendable(survey: Survey, findings: Iterable[Finding]) -> Iterator[Repair]:
    """Yield what `verify` finds and nobody can mend from the bucket alone."""
    for finding in findings:
        is_meant = survey.ledgers is None or survey.is_meant(finding.ledger_id)
        if finding.severity is Severity.REMARK or finding.kind in _OWN_KINDS or not is_meant:
            continue
        has_advice = finding.severity is not Severity.DAMAGE or finding.kind == "truncated-offload"
        message = finding.message if has_advice else f"{finding.message}; {_ADVICE}"
        yield Repair(finding.kind, finding.severity, message, finding.key, finding.ledger_id, finding.topic)


def _guarded(kind: str, key: str, ledger_id: int | None, look: Callable[[], Iterable[Repair]]) -> Iterator[Repair]:
    """Yield what a look finds, or what kept it from looking."""
    try:
        yield from look()
    except StoreUnreachableError:
        raise
    except (ObjectNotFoundError, StaleObjectError) as error:
        reason = f"the bucket changed while it was looked at: {error}; repair once more"
        yield Repair(kind, Severity.REMARK, reason, key, ledger_id)
    except LedgerfsError as error:
        yield Repair(kind, Severity.UNCHECKED, f"not known: {error.reason}", key, ledger_id)
