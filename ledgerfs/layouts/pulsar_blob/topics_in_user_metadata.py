"""Topics that the user metadata of objects names, if no index does: a HEAD each, several at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ledgerfs.catalog.layout import Progress
from ledgerfs.errors import LedgerfsError, NotFoundError, StoreUnreachableError
from ledgerfs.formats.pulsar_blob.user_metadata import group_of, parse_user_metadata
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ObjectStat
from ledgerfs.storage.ordered_map import ordered_map

_THREADS = 16
_TOLD_EVERY = 256


@dataclass(frozen=True, slots=True)
class Told:
    """The answer about one object.

    Attributes
    ----------
    managed_ledger
        Named by its user metadata; None if that names none.
    stat
        The object as it is now; None if it is gone.
    is_kept
        Whether the store keeps user metadata at all.
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


_KEEPS_NONE = Told(is_kept=False)


def told_of(store: ObjectStore, key: str) -> Told:
    """Ask for one object; raises only `StoreUnreachableError`."""
    try:
        head = store.head(key)
    except NotFoundError:
        return Told()
    except StoreUnreachableError:
        raise
    except LedgerfsError as error:
        return Told(error=error)
    if head.metadata is None:
        return Told(stat=head.stat, is_kept=False)
    told = parse_user_metadata(head.metadata).managed_ledger
    return Told(told, head.stat, is_of_job=group_of(head.metadata) is not None)


def all_told(store: ObjectStore, keys: Sequence[str], progress: Progress | None = None) -> Iterator[Told]:
    """Yield the answer about each object, in order; a store that keeps no user metadata is asked once."""
    first = told_of(store, keys[0]) if keys else _KEEPS_NONE
    if not first.is_kept:
        yield from [_KEEPS_NONE] * len(keys)
        return
    yield first
    for done, told in enumerate(ordered_map(lambda key: told_of(store, key), keys[1:], _THREADS, "ledgerfs-head"), 2):
        if progress is not None and (done % _TOLD_EVERY == 0 or done == len(keys)):
            progress("asking for topics", done, len(keys))
        yield told
