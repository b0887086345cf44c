"""Check objects without a partner a second time, with one request each: a listing alone is not enough.

The pages of a listing are of different moments, so a ledger that is uploaded or deleted meanwhile may appear with one object only. And
only user metadata contains the topic of a data object whose index is lost or unreadable. The catalog stores the answers by the object's
version, so that no request is repeated.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import LEDGER, Table
from ledgerfs.catalog.fragments import Unreadable
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.missing_ledgers import UNKNOWN
from ledgerfs.errors import LedgerfsError, NotFoundError, ObjectNotFoundError, StoreUnreachableError
from ledgerfs.formats.pulsar_blob.user_metadata import group_of, parse_user_metadata
from ledgerfs.formats.uuid_halves import uuid_halves
from ledgerfs.layouts.pulsar_blob.columns import (
    NUMBER,
    ORPHAN,
    UNASKED,
    key_of,
    keys_of,
    listed_row,
    match_rows,
    own_of,
)
from ledgerfs.layouts.pulsar_blob.fragments import BadIndex, fragments_of, refused_data
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ObjectStat
from ledgerfs.storage.ordered_map import ordered_map

_THREADS = 16
_REPORTED_EVERY = 256


@dataclass(frozen=True, slots=True)
class ObjectTopic:
    """The answer about one object.

    Attributes
    ----------
    managed_ledger
        In its user metadata; None if that does not contain one.
    stat
        The object as it is now; None if it is gone.
    is_kept
        Whether the store keeps user metadata.
    is_of_job
        Whether a job wrote it together with others, which all become ledgers or none (`ledger_group`).
    error
        Why there was no answer; None if there was one.

    """

    managed_ledger: str | None = None
    stat: ObjectStat | None = None
    is_kept: bool = True
    is_of_job: bool = False
    error: LedgerfsError | None = None


_KEEPS_NONE = ObjectTopic(is_kept=False)


def topic_of_object(store: ObjectStore, key: str) -> ObjectTopic:
    """Request one object; raises only `StoreUnreachableError`."""
    try:
        head = store.head(key)
    except NotFoundError:
        return ObjectTopic()
    except StoreUnreachableError:
        raise
    except LedgerfsError as error:
        return ObjectTopic(error=error)
    if head.metadata is None:
        return ObjectTopic(stat=head.stat, is_kept=False)
    reported = parse_user_metadata(head.metadata).managed_ledger
    return ObjectTopic(reported, head.stat, is_of_job=group_of(head.metadata) is not None)


def topics_of_objects(
    store: ObjectStore, keys: Sequence[str], progress: Progress | None = None
) -> Iterator[ObjectTopic]:
    """Yield the answer about each object, in order; sends one request if the store keeps no user metadata."""
    first = topic_of_object(store, keys[0]) if keys else _KEEPS_NONE
    if not first.is_kept:
        yield from [_KEEPS_NONE] * len(keys)
        return
    yield first
    for done, reported in enumerate(
        ordered_map(lambda key: topic_of_object(store, key), keys[1:], _THREADS, "ledgerfs-head"), 2
    ):
        if progress is not None and (done % _REPORTED_EVERY == 0 or done == len(keys)):
            progress("reading topic names", done, len(keys))
        yield reported


RowOf = Callable[[str | None], int]
"""Returns the row of a managed ledger's name; a new name gets a row."""

Versions = npt.NDArray[np.bytes_]


def without_false_losses(
    store: ObjectStore, ledgers: Table, previous: Catalog | None, refused: list[Unreadable]
) -> Table:
    """Return the rows of `LEDGER` whose index exists.

    ``stored`` is -1 if the data object is gone, or if the store refuses to answer; in that case it is appended to ``refused``.
    """
    old = np.empty(0, LEDGER) if previous is None else _known_losses(previous)
    lost = np.flatnonzero(ledgers["stored"] < 0)
    lost = lost[~_is_known(ledgers[lost], own_of(ledgers)["index_version"][lost], old, own_of(old)["index_version"])]

    def look(row: int) -> tuple[ObjectTopic, bool]:
        key = key_of(ledgers[row])
        data = topic_of_object(store, key.data_key)
        is_there = data.stat is not None or data.error is not None
        return data, not is_there and _is_gone(topic_of_object(store, key.index_key))

    is_deleted = np.zeros(ledgers.size, bool)
    for row, (data, is_deleted[row]) in zip(
        lost.tolist(), ordered_map(look, lost.tolist(), _THREADS, "ledgerfs-head"), strict=True
    ):
        if data.stat is not None:
            *_, size, modified_ms, version = listed_row(key_of(ledgers[row]), data.stat)
            own = own_of(ledgers)
            ledgers["stored"][row] = size
            own["data_modified_ms"][row], own["data_version"][row] = modified_ms, version
        elif data.error is not None:
            refused.append(refused_data(key_of(ledgers[row]), data.error))
    return ledgers[~is_deleted]


def _known_losses(previous: Catalog) -> Table:
    """Return the lost ledgers of an earlier catalog, without those for which the store refused to answer."""
    lost: Table = previous.lost[previous.lost["layout"] == NUMBER]
    refused = {(*uuid_halves(one.uuid), one.ledger_id) for one in fragments_of(previous).refused}
    if not refused:
        return lost
    keys = zip(*(lost[name].tolist() for name in ("uuid_high", "uuid_low", "ledger_id")), strict=True)
    known: Table = lost[[key not in refused for key in keys]]
    return known


def named_orphans(
    store: ObjectStore,
    listed: Table,
    previous: Catalog | None,
    row_of: RowOf,
    *,
    progress: Progress | None,
    refused: list[Unreadable],
) -> Table:
    """Return data objects without an index as rows of `ORPHAN`, except those that were deleted meanwhile.

    Appends those whose topic the store refuses to show to ``refused``.
    """
    orphans = np.zeros(listed.size, ORPHAN)
    for column in listed.dtype.names or ():
        orphans[column] = listed[column]
    orphans["name"] = UNASKED
    if previous is not None:
        _remember(orphans, previous, row_of)
    unknown = np.flatnonzero(orphans["name"] == UNASKED)
    keys = [key.data_key for key in keys_of(orphans[unknown])]
    is_gone = np.zeros(orphans.size, bool)
    for row, reported in zip(unknown.tolist(), topics_of_objects(store, keys, progress), strict=True):
        is_gone[row] = _is_gone(reported)
        orphans["is_of_job"][row] = reported.is_of_job
        if reported.managed_ledger is not None:
            orphans["name"][row] = row_of(reported.managed_ledger)
        elif reported.error is None:
            orphans["name"][row] = UNKNOWN
        else:
            refused.append(refused_data(key_of(orphans[row]), reported.error))
    return orphans[~is_gone]


def named_bad_indexes(store: ObjectStore, bad: Sequence[BadIndex], row_of: RowOf) -> list[BadIndex]:
    """Return the same with the topics in the user metadata of index or data object."""
    asked = [one for one in bad if not isinstance(one.error, ObjectNotFoundError)]
    reported = [one.managed_ledger for one in topics_of_objects(store, [one.key.index_key for one in asked])]
    nameless = [place for place, name in enumerate(reported) if name is None]
    by_data = topics_of_objects(store, [asked[place].key.data_key for place in nameless])
    for place, one in zip(nameless, by_data, strict=True):
        reported[place] = one.managed_ledger
    names = {one.key: name for one, name in zip(asked, reported, strict=True)}
    for name in names.values():
        if name is not None:
            row_of(name)
    return [replace(one, managed_ledger=names.get(one.key)) for one in bad]


def _remember(orphans: Table, previous: Catalog, row_of: RowOf) -> None:
    """Copy the answers about the same versions of the same objects."""
    old = fragments_of(previous).orphans
    for row in np.flatnonzero(_is_known(orphans, orphans["version"], old, old["version"])).tolist():
        known = old[match_rows(orphans[row : row + 1], old)[0]]
        name = int(known["name"])
        orphans["name"][row] = name if name < 0 else row_of(previous.names[name])
        for column in ("is_of_job", "has_copy", "near_high", "near_low", "near_version"):
            orphans[column][row] = known[column]


def _is_known(rows: Table, versions: Versions, old: Table, old_versions: Versions) -> npt.NDArray[np.bool_]:
    """Return which rows are among the older ones in the same version."""
    if not old.size:
        return np.zeros(rows.size, bool)
    matches = match_rows(rows, old)
    is_same: npt.NDArray[np.bool_] = (old_versions[matches] == versions) & (versions != b"")
    return is_same & (matches >= 0)


def _is_gone(reported: ObjectTopic) -> bool:
    return reported.stat is None and reported.error is None and reported.is_kept
