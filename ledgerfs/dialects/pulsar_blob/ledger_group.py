"""Several ledgers that one job writes: data objects by whoever has the rows, in any process, and all indexes by one in the end.

Nobody sees any of the ledgers before `publish_all`, and an error of that says that there is none of them. An object store makes one object
appear at a time, though, not several: while `publish_all` is at work, which takes a few requests a ledger, somebody else may see some of
them, and if its process is killed just then, they stay. One ledger appears whole or not at all, whatever happens.
"""

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from ledgerfs.dialects.pulsar_blob.writer import UnindexedLedger, WrittenLedger, publish
from ledgerfs.errors import (
    LedgerExistsError,
    LedgerfsError,
    StaleObjectError,
    StoreUnreachableError,
    UncertainWriteError,
)
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey, parse_ledger_key
from ledgerfs.formats.pulsar_blob.user_metadata import GROUP_KEY, group_of
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.ordered_map import ordered_map

_log = logging.getLogger("ledgerfs.store")

_DIGITS_OF_GROUP = re.compile(r"[0-9a-f]{12}")
_THREADS = 4
_DIGITS = 12
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class LedgerGroup:
    """The ledgers of one job. The uuids of all its data objects begin with the same 48 random bits, by which a listing finds them.

    Attributes
    ----------
    digits
        Those bits, as 12 hexadecimal digits.

    """

    digits: str

    @classmethod
    def new(cls) -> "LedgerGroup":
        """Return a group of no ledgers yet."""
        return cls(uuid4().hex[:_DIGITS])

    @property
    def key_prefix(self) -> str:
        """What the keys of its objects, and of nobody else's, begin with."""
        return f"{self.digits[:8]}-{self.digits[8:]}-"

    @property
    def mark(self) -> dict[str, str]:
        """User metadata by which its objects are known as those of one job."""
        return {GROUP_KEY: self.digits}

    @classmethod
    def of(cls, metadata: Mapping[str, str] | None) -> "LedgerGroup | None":
        """Return the group that an object's user metadata tells, None for none."""
        digits = group_of(metadata or {}) or ""
        return cls(digits) if _DIGITS_OF_GROUP.fullmatch(digits) else None

    def new_uuid(self) -> str:
        """Return a uuid for one attempt to write one of its ledgers; as random as others behind its first bits."""
        return self.key_prefix + str(uuid4())[len(self.key_prefix) :]


def publish_all(store: RawStore, group: LedgerGroup, made: Sequence[UnindexedLedger]) -> list[WrittenLedger]:
    """Put the indexes of all ledgers of a group, a few at a time, from the first one on; costs two listings of the bucket besides.

    Raises
    ------
    LedgerExistsError
        Somebody else has written a ledger of such an id, before or meanwhile. Of two groups that are published at the same time both may
        be told so.
    StaleObjectError
        Somebody has removed one of the ledgers just after it was published.
    LedgerfsError
        An index could not be put. As before, there is none of the ledgers then, and no data object of them,
    UncertainWriteError
        but for those named here, which could not be removed again.

    """
    try:
        _require_free(store, group, made)
        written = list(ordered_map(lambda one: publish(store, one), made, _THREADS, "ledgerfs-index"))
        # Another group may have been published at the same time: whoever sees the other one gives way.
        _require_all(made, _require_free(store, group, made))
    except BaseException as error:
        take_back(store, [one.ledger.key for one in made], error)
        raise
    return written


def remove_all(store: RawStore, group: LedgerGroup, kept: Collection[str] = ()) -> None:
    """Remove whatever the store has of a group, but for the ledgers whose data objects are ``kept``: what attempts that failed have left.

    Uploads under way are ended first, so that who still sends one cannot complete it. Raises what the store raises, in the end.
    """
    errors = [*_end_uploads(store, group), *_delete_objects(store, group, kept)]
    if errors:
        raise errors[0]


def _require_free(store: RawStore, group: LedgerGroup, made: Sequence[UnindexedLedger]) -> set[str]:
    """Return the keys of the group's objects that a listing has; raises `LedgerExistsError` if another index has one of the ids."""
    ids = {one.ledger.key.ledger_id for one in made}
    ours: set[str] = set()
    for page in store.list_pages():
        for stat in page:
            key = parse_ledger_key(stat.key)
            if stat.key.startswith(group.key_prefix):
                ours.add(stat.key)
                continue
            if key is None or not key.is_index or key.ledger_id not in ids:
                continue
            raise LedgerExistsError(
                f"somebody else has written ledger {key.ledger_id} meanwhile; ids are unique in a cluster, and none of the "
                f"{len(ids)} ledgers is written: write them again",
                key=stat.key,
            )
    return ours


def _require_all(made: Sequence[UnindexedLedger], there: Collection[str]) -> None:
    """Raise `StaleObjectError` if an object of one of the ledgers is not there."""
    for one in made:
        for key in (one.ledger.key.index_key, one.ledger.key.data_key):
            if key not in there:
                reason = f"somebody has removed it meanwhile, and none of the {len(made)} ledgers is written: write them again"
                raise StaleObjectError(reason, key=key)


def _end_uploads(store: RawStore, group: LedgerGroup) -> Iterator[LedgerfsError]:
    """End what is under way; yields what went wrong with that."""
    try:
        under_way = [one for one in store.writes.unfinished_uploads() if one.key.startswith(group.key_prefix)]
    except LedgerfsError as error:
        # Not every store tells, or may be asked. What is complete is removed in any case.
        _log.warning("unfinished uploads may stay in the store, until `ledgerfs repair` ends them: %s", error)
        return
    for upload in under_way:
        try:
            store.writes.end_unfinished(upload)
        except LedgerfsError as error:
            yield error


def _delete_objects(store: RawStore, group: LedgerGroup, kept: Collection[str]) -> Iterator[LedgerfsError]:
    """Delete objects, indexes before data objects; yields what went wrong with that."""
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
    """Remove ledgers of which some may be there, all indexes before the first data object: what is left of a job then is no part of it.

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
            f"these ledgers could not be removed again after others failed, and may be there without those: {_listed(list(left))}; "
            f"`ledgerfs rm` removes them; {failure.reason}",
            key=f"{keys[0].uuid}-ledger-…",
        ) from cause


def _listed(ids: Sequence[int]) -> str:
    more = f" and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else ""
    return ", ".join(map(str, ids[:_MOST_NAMED])) + more
