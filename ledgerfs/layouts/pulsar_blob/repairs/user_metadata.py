"""Repairs of user metadata that a copy tool dropped: a broker refuses such objects, though whole (``docs/formats/pulsar-blob.md``)."""

from collections.abc import Iterator, Mapping

from ledgerfs.catalog.findings import Severity
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.missing_ledgers import UNKNOWN
from ledgerfs.catalog.repairs import Repair
from ledgerfs.errors import LedgerfsError, ObjectNotFoundError, StaleObjectError, StoreUnreachableError
from ledgerfs.formats.pulsar_blob.user_metadata import FORMAT_VERSION, parse_user_metadata
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.layouts.pulsar_blob.columns import NUMBER, key_of
from ledgerfs.layouts.pulsar_blob.remains import NO_VERSION_KEY, remains_of
from ledgerfs.layouts.pulsar_blob.repairs.actions import RestoreMetadata
from ledgerfs.layouts.pulsar_blob.repairs.survey import Survey
from ledgerfs.storage.objects import ObjectHead
from ledgerfs.storage.ordered_map import ordered_map

_THREADS = 16
_TOLD_EVERY = 64


def look_at_metadata(survey: Survey) -> Iterator[Repair]:
    """Yield the repairs of the user metadata of all ledgers, asking for some at a time; none if the store keeps no such metadata."""
    if not survey.store.writes.keeps_metadata:
        return
    refs = (ref for ref in survey.catalog.refs() if ref.layout == NUMBER and survey.is_meant(ref.ledger_id))
    total = int((survey.catalog.ledgers["layout"] == NUMBER).sum())

    def look(ref: LedgerRef) -> list[Repair]:
        return [*_look_at_object(survey, ref, "data"), *_look_at_object(survey, ref, "index")]

    for done, repairs in enumerate(ordered_map(look, refs, _THREADS, "ledgerfs-head"), 1):
        yield from repairs
        if done % _TOLD_EVERY == 0 or done == total:
            survey.say("reading user metadata", done, total)


def lost_metadata(
    survey: Survey, head: ObjectHead, managed_ledger: str | None, role: str, ledger_id: int
) -> Iterator[Repair]:
    """Yield the repair of one object's user metadata, if a broker refuses the object."""
    metadata = head.metadata
    refused = None if metadata is None else parse_user_metadata(metadata).broker_refuses
    if refused is None:
        return
    told = managed_ledger or parse_user_metadata(metadata or {}).managed_ledger
    name, is_told = told or survey.managed_ledger, told is not None
    topic = None if name is None else topic_of(name)

    def found(reason: str, action: RestoreMetadata | None = None) -> Repair:
        return Repair(NO_VERSION_KEY, Severity.DAMAGE, reason, head.stat.key, ledger_id, topic, action)

    foreign = foreign_format(metadata)
    if foreign is not None:
        yield found(f"left alone: {foreign}; a broker refuses this object")
    elif name is None:
        yield found(f"{refused}; nothing tells its topic; `--topic` with `--ledger` names it")
    elif not is_told and (other := _other_of(survey, name, ledger_id)) is not None:
        yield found(f"{refused}; nothing tells its topic, and that topic has another ledger {ledger_id}: {other}")
    elif not survey.store.writes.can_set_metadata:
        yield found(f"{refused}; ledgerfs cannot change user metadata in this store: copy the object with it")
    else:
        yield found(refused, RestoreMetadata(head.stat, name, role))


def _other_of(survey: Survey, managed_ledger: str, ledger_id: int) -> str | None:
    """Return the key of a ledger that a topic has under this id, of any layout, or that a repair may make; None without one."""
    catalog, remains = survey.catalog, remains_of(survey.catalog)
    orphans = remains.orphans[remains.orphans["ledger_id"] == ledger_id]
    row = catalog.row_of(managed_ledger)
    named = orphans[(orphans["name"] == row) & (row != UNKNOWN)]
    bad = (one for one in remains.bad_indexes if one.managed_ledger == managed_ledger)
    keys = [
        *(ref.key for ref in catalog.copies_of(managed_ledger, ledger_id)),
        *(key_of(row).data_key for row in named),
        *(one.key.data_key for one in bad if one.key.ledger_id == ledger_id),
    ]
    return next(iter(keys), None)


def foreign_format(metadata: Mapping[str, str] | None) -> str | None:
    """Return why an object is not Pulsar's, by its user metadata; None if it may be."""
    version = parse_user_metadata(metadata or {}).format_version
    if version in {None, FORMAT_VERSION}:
        return None
    return f"its user metadata says that it is of format {version!r}, which is another software's"


def _look_at_object(survey: Survey, ref: LedgerRef, role: str) -> list[Repair]:
    key = ref.object("data").key if role == "data" else ref.object("index").key
    try:
        head = survey.store.head(key)
    except StoreUnreachableError:
        raise
    except (ObjectNotFoundError, StaleObjectError):
        return []  # deleted since the listing
    except LedgerfsError as error:
        return [Repair(NO_VERSION_KEY, Severity.UNCHECKED, error.reason, key, ref.ledger_id, ref.topic)]
    return list(lost_metadata(survey, head, ref.managed_ledger, role, ref.ledger_id))
