"""Opening the dialects of a bucket: each is loaded by its name, only if it is wanted."""

from importlib import import_module
from typing import Protocol, cast

from ledgerfs.errors import InvalidOptionError
from ledgerfs.ledgers.dialect import Dialect
from ledgerfs.ledgers.dialects_known import AUTO, NAMES
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
    """Return one dialect over a store, or all of them for ``auto``; raises as `require_dialect`."""
    require_dialect(dialect)
    wanted = NAMES if dialect == AUTO else (dialect,)
    modules = (cast("_Module", import_module(f"ledgerfs.dialects.{name}.dialect")) for name in wanted)
    return tuple(module.open_dialect(store) for module in modules)
