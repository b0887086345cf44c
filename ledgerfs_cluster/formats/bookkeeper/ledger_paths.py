"""Paths of ledgers' nodes in ZooKeeper: a tree by the digits of the id (``docs/formats/bookkeeper.md``).

Ids below 2³¹ - 1 have ten digits, split 2-4-4, larger ones nineteen, split 3-4-4-4-4. Clusters configured for long ids use nineteen for
all, so both forms are parsed for any id.
"""

import re

from ledgerfs.display import printable
from ledgerfs.errors import InvalidNameError, UnsupportedFormatError

_ROOT = "/ledgers"
_LONG_FROM = 2**31 - 1
_END = 2**63
_LEDGER = re.compile(r"/(?:(\d{2})/(\d{4})|(\d{3})/(\d{4})/(\d{4})/(\d{4}))/L(\d{4})", re.ASCII)
_FOLDER = re.compile(r"(?:/\d{2}(?:/\d{4})?|/\d{3}(?:/\d{4}){0,3})?", re.ASCII)


_KNOWN_LAYOUTS = frozenset(
    {"HierarchicalLedgerManagerFactory", "LegacyHierarchicalLedgerManagerFactory", "PulsarLedgerManagerFactory"}
)

BLOCK_BITS = 32
"""BookKeeper counts ids within blocks of 2³², with a node for each block (`LongZkLedgerIdGenerator`)."""


def layout_path(root: str = _ROOT) -> str:
    """Return the path of the node with the layout of ledgers' nodes; Pulsar's own metadata store has none."""
    return f"{root}/LAYOUT"


def require_layout(data: bytes, *, key: str) -> None:
    """Raise `UnsupportedFormatError` for a layout with other paths than those of `ledger_path`: flat, or with long ids only."""
    # "2", and the class of a factory with its version (docs/formats/bookkeeper.md).
    factory = data.decode("utf-8", "replace").strip().rpartition("\n")[2].partition(":")[0].rpartition(".")[2]
    if factory not in _KNOWN_LAYOUTS:
        reason = f"BookKeeper's ledger metadata has a layout that ledgerfs does not support: {printable(factory[:100]) or 'empty'}"
        raise UnsupportedFormatError(reason, key=key)


def ledger_path(ledger_id: int, root: str = _ROOT) -> str:
    """Return the path of a ledger's node below ``root``; raises `InvalidNameError` for a number that is not a ledger's id."""
    if not 0 <= ledger_id < _END:
        raise InvalidNameError("not a valid ledger id", key=str(ledger_id))
    if ledger_id < _LONG_FROM:
        digits = f"{ledger_id:010d}"
        return f"{root}/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"
    digits = f"{ledger_id:019d}"
    return f"{root}/{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"


def ledger_id_at(path: str, root: str = _ROOT) -> int | None:
    """Return the id of the ledger whose node is at ``path``; None for any other node."""
    if not path.startswith(root):
        return None
    found = _LEDGER.fullmatch(path, len(root))
    if found is None:
        return None
    ledger_id = int("".join(part for part in found.groups() if part))
    return ledger_id if ledger_id < _END else None


def is_folder_of_ledgers(path: str, root: str = _ROOT) -> bool:
    """Return whether ledgers may be below ``path``: the root itself and folders of digits, not nodes of bookies and of upkeep."""
    return path.startswith(root) and _FOLDER.fullmatch(path, len(root)) is not None
