"""Plan repairs for all objects of a bucket that are damaged or incomplete."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from ledgerfs.catalog.findings import Severity
from ledgerfs.catalog.repairs import Repair
from ledgerfs.errors import LedgerfsError, ObjectNotFoundError, StaleObjectError, StoreUnreachableError
from ledgerfs.formats.pulsar_blob.object_names import KeyKind
from ledgerfs.layouts.pulsar_blob.columns import NUMBER, key_of
from ledgerfs.layouts.pulsar_blob.fragments import (
    DATA_WITHOUT_INDEX,
    GCS_PART,
    INDEX_WITHOUT_DATA,
    UNREADABLE_INDEX,
    fragments_of,
)
from ledgerfs.layouts.pulsar_blob.repairs.leftovers import (
    look_at_lost,
    look_at_metadata,
    look_at_part,
    look_at_uploads,
    part_names,
)
from ledgerfs.layouts.pulsar_blob.repairs.survey import Survey
from ledgerfs.storage.ordered_map import ordered_map

_PART_THREADS = 16


def plan_repairs(survey: Survey, *, metadata: bool) -> Iterator[Repair]:
    """Yield a repair, with or without an action, for every damaged or incomplete object; changes nothing.

    With ``metadata`` also checks the user metadata of every object, with a request each. Raises `StoreUnreachableError`.
    """
    yield from _unpaired(survey)
    yield from _leftovers(survey)
    if metadata:
        yield from look_at_metadata(survey)


def _unpaired(survey: Survey) -> Iterator[Repair]:
    """Yield the repairs of ledgers with a missing object, or an unreadable index."""
    catalog = survey.catalog
    orphans = [key for key in map(key_of, fragments_of(catalog).orphans) if survey.is_meant(key.ledger_id)]
    bad = [one for one in fragments_of(catalog).bad_indexes if survey.is_meant(one.key.ledger_id)]
    if orphans or bad:
        # These import numba, which is only needed if an object lacks its partner.
        from ledgerfs.layouts.pulsar_blob.repairs.orphans import look_at_bad_index, look_at_orphan
        from ledgerfs.layouts.pulsar_blob.repairs.same_bytes import one_of_each

        found: list[Repair] = []
        for done, key in enumerate(orphans, 1):
            found += _guarded(DATA_WITHOUT_INDEX, key.data_key, key.ledger_id, partial(look_at_orphan, survey, key))
            survey.say("reading data without index", done, len(orphans))
        for done, one in enumerate(bad, 1):
            look = partial(look_at_bad_index, survey, one)
            found += _guarded(UNREADABLE_INDEX, one.key.index_key, one.key.ledger_id, look)
            survey.say("reading data of unreadable indexes", done, len(bad))
        yield from one_of_each(survey, found)
    for row in catalog.lost[catalog.lost["layout"] == NUMBER]:
        lost = catalog.ref_of(row)
        if survey.is_meant(lost.ledger_id):
            yield from _guarded(
                INDEX_WITHOUT_DATA, lost.object("index").key, lost.ledger_id, partial(look_at_lost, survey, lost)
            )


def _leftovers(survey: Survey) -> Iterator[Repair]:
    yield from look_at_uploads(survey)
    names = part_names(survey)

    def look(name: str) -> list[Repair]:
        return list(_guarded(GCS_PART, name, None, lambda: [look_at_part(survey, name)]))

    for repairs in ordered_map(look, names, _PART_THREADS, "ledgerfs-head"):
        yield from repairs
    more = survey.catalog.others.counts.get(KeyKind.GCS_PART.value, 0) - len(names)
    if names and more:
        yield Repair(GCS_PART, Severity.REMARK, f"{more} more of them were not checked: run the repair again")


def _guarded(kind: str, key: str, ledger_id: int | None, look: Callable[[], Iterable[Repair]]) -> Iterator[Repair]:
    """Yield the repairs that ``look`` finds, or one for the error that stopped it."""
    try:
        yield from look()
    except StoreUnreachableError:
        raise
    except (ObjectNotFoundError, StaleObjectError) as error:
        reason = f"the bucket changed during the check: {error}; run the repair again"
        yield Repair(kind, Severity.REMARK, reason, key, ledger_id)
    except LedgerfsError as error:
        yield Repair(kind, Severity.UNCHECKED, f"cannot check: {error.reason}", key, ledger_id)
