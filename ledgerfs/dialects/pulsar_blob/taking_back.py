"""Taking ledgers back that were published a moment ago, since others failed, or since somebody else has written the same ones."""

from collections.abc import Sequence

from ledgerfs.errors import LedgerfsError, StoreUnreachableError, UncertainWriteError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.storage.object_store import RawStore

_MOST_NAMED = 20


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
