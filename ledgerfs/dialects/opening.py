"""Opening the dialects of a bucket: each is loaded by its name, only if it is wanted."""

from importlib import import_module
from typing import Protocol, cast

from ledgerfs.errors import InvalidOptionError
from ledgerfs.ledgers.dialect import Dialect
from ledgerfs.ledgers.dialects_known import AUTO, NAMES, OF_BUCKETS, OF_CLUSTERS, OF_DISKS
from ledgerfs.storage.object_store import KeepingStore


class _Module(Protocol):
    """The module ``dialect`` in the folder of a dialect."""

    def open_dialect(self, store: KeepingStore) -> Dialect:
        """Return the dialect over one bucket."""
        ...


def require_dialect(dialect: str) -> None:
    """Raise `InvalidOptionError` for an unknown dialect."""
    if dialect not in {AUTO, *NAMES}:
        raise InvalidOptionError(f"the dialects are {', '.join((AUTO, *NAMES))}", key=f"dialect={dialect}")


def open_dialects(store: KeepingStore, dialect: str = AUTO) -> tuple[Dialect, ...]:
    """Return one dialect over a store, or all that may be in it for ``auto``.

    Raises as `require_dialect`, and `InvalidOptionError` for a dialect of one kind of place in another one.
    """
    require_dialect(dialect)
    what, known = _place_of(store)
    if dialect not in {AUTO, *known}:
        raise InvalidOptionError(
            f"{store.url}: {what}, whose dialects are {', '.join(known)}", key=f"dialect={dialect}"
        )
    wanted = known if dialect == AUTO else (dialect,)
    modules = (cast("_Module", import_module(f"ledgerfs.dialects.{name}.dialect")) for name in wanted)
    return tuple(module.open_dialect(store) for module in modules)


def _place_of(store: KeepingStore) -> tuple[str, tuple[str, ...]]:
    """Return what a store is, in words, and the dialects that may be in it."""
    if store.cluster is not None:
        return "a living cluster", OF_CLUSTERS
    return ("a bucket", OF_BUCKETS) if store.disks is None else ("disks of bookies", OF_DISKS)
