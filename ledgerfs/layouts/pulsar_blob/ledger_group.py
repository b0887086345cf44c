"""Write several ledgers in one job: data objects in any process, then all indexes in one process.

Readers see none of the ledgers before `publish_all`, nor after an error of it. But an object store publishes one object at a time: while
`publish_all` runs (a few requests per ledger), others may see some of the ledgers, and if its process is killed then, these stay. Each
single ledger appears whole or not at all.
"""

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from ledgerfs.errors import LedgerfsError, StoreUnreachableError, UncertainWriteError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey, parse_ledger_key
from ledgerfs.formats.pulsar_blob.user_metadata import GROUP_KEY, group_of
from ledgerfs.layouts.pulsar_blob.writer import UnindexedLedger, WrittenLedger, publish
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.ordered_map import ordered_map

_log = logging.getLogger("ledgerfs.store")

_DIGITS_OF_GROUP = re.compile(r"[0-9a-f]{12}")
_THREADS = 4
_DIGITS = 12
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class LedgerGroup:
    """The ledgers of one job. The uuids of its data objects begin with the same 48 random bits, so a listing finds them.

    Attributes
    ----------
    digits
        Those bits, as 12 hexadecimal digits.

    """

    digits: str

    @classmethod
    def new(cls) -> "LedgerGroup":
        """Return a group without ledgers."""
        return cls(uuid4().hex[:_DIGITS])

    @property
    def key_prefix(self) -> str:
        """The beginning of the keys of its objects, and of no others."""
        return f"{self.digits[:8]}-{self.digits[8:]}-"

    @property
    def mark(self) -> dict[str, str]:
        """User metadata that marks its objects as those of one job."""
        return {GROUP_KEY: self.digits}

    @classmethod
    def of(cls, metadata: Mapping[str, str] | None) -> "LedgerGroup | None":
        """Return the group in an object's user metadata; None if it contains none."""
        digits = group_of(metadata or {}) or ""
        return cls(digits) if _DIGITS_OF_GROUP.fullmatch(digits) else None

    def new_uuid(self) -> str:
        """Return a uuid for one attempt to write one of its ledgers, random after its first 48 bits."""
        return self.key_prefix + str(uuid4())[len(self.key_prefix) :]


def publish_all(store: RawStore, made: Sequence[UnindexedLedger]) -> list[WrittenLedger]:
    """Put the indexes of all ledgers of a group, a few at a time, in order; on an error, remove them all again.

    Raises `UncertainWriteError` for those that could not be removed.
    """
    try:
        return list(ordered_map(lambda one: publish(store, one), made, _THREADS, "ledgerfs-index"))
    except BaseException as error:
        take_back(store, [one.ledger.key for one in made], error)
        raise


def remove_all(store: RawStore, group: LedgerGroup, kept: Collection[str] = ()) -> None:
    """Remove all objects of a group that failed attempts have left, except the ledgers whose data objects are ``kept``.

    Aborts unfinished uploads first, so that they cannot be completed later. Raises the store's errors at the end.
    """
    errors = [*_end_uploads(store, group), *_delete_objects(store, group, kept)]
    if errors:
        raise errors[0]


def _end_uploads(store: RawStore, group: LedgerGroup) -> Iterator[LedgerfsError]:
    """Abort unfinished uploads; yields the errors."""
    try:
        under_way = [one for one in store.writes.unfinished_uploads() if one.key.startswith(group.key_prefix)]
    except LedgerfsError as error:
        # Not every store can or may list uploads. Complete objects are removed in any case.
        _log.warning("unfinished uploads may be left in the store; `ledgerfs repair` removes them: %s", error)
        return
    for upload in under_way:
        try:
            store.writes.end_unfinished(upload)
        except LedgerfsError as error:
            yield error


def _delete_objects(store: RawStore, group: LedgerGroup, kept: Collection[str]) -> Iterator[LedgerfsError]:
    """Delete objects, indexes before data objects; yields the errors."""
    keys = [parse_ledger_key(stat.key) for page in store.list_pages(group.key_prefix) for stat in page]
    found = sorted(
        {key for key in keys if key is not None and key.data_key not in kept}, key=lambda key: not key.is_index
    )
    for key in found:
        try:
            store.writes.delete(key.index_key if key.is_index else key.data_key)
        except LedgerfsError as error:
            yield error


def take_back(store: RawStore, keys: Sequence[LedgerKey], cause: BaseException) -> None:
    """Remove ledgers of which some may exist: all indexes first, since a data object alone is not a ledger.

    Raises `UncertainWriteError` for those whose objects cannot be removed.
    """
    left: dict[int, None] = {}
    failure: LedgerfsError | None = None
    for is_index in (True, False):
        for key in keys:
            if key.ledger_id in left or isinstance(failure, StoreUnreachableError):
                left[key.ledger_id] = None
                continue
            try:
                store.writes.delete(key.index_key if is_index else key.data_key)
            except LedgerfsError as error:
                failure = error
                left[key.ledger_id] = None
    if failure is not None:
        raise UncertainWriteError(
            f"cleanup failed: other ledgers of the batch failed, and these may still exist: {_listed(list(left))}; "
            f"delete them with `ledgerfs rm`: {failure.reason}",
            key=f"{keys[0].uuid}-ledger-…",
        ) from cause


def _listed(ids: Sequence[int]) -> str:
    more = f" and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else ""
    return ", ".join(map(str, ids[:_MOST_NAMED])) + more
