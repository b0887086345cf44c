"""How the commands about clusters show ledgers and brokers."""

from collections.abc import Sequence

from ledgerfs.clusters.bundles import Owner

_SHOWN = 3


def ledgers_text(ids: Sequence[int]) -> str:
    """Return the first ledgers, and how many there are."""
    if len(ids) <= _SHOWN:
        return ", ".join(map(str, ids)) or "-"
    return f"{', '.join(map(str, ids[: _SHOWN - 1]))}, … {ids[-1]} ({len(ids):,})"


def owner_text(owner: Owner) -> str:
    """Return what is known of a topic's broker."""
    return {Owner.NONE: "not loaded", Owner.SOME: "may be loaded", Owner.UNKNOWN: "unknown"}[owner]
