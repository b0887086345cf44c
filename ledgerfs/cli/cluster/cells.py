"""How the commands about clusters show ledgers, spans of time, and brokers."""

from collections.abc import Sequence

from ledgerfs.clusters.bundles import Owner

_SHOWN = 3
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def ledgers_text(ids: Sequence[int]) -> str:
    """Return the first ledgers, and how many there are."""
    if len(ids) <= _SHOWN:
        return ", ".join(map(str, ids)) or "-"
    return f"{', '.join(map(str, ids[: _SHOWN - 1]))}, … {ids[-1]} ({len(ids):,})"


def span(milliseconds: int) -> str:
    """Return a span of time with its largest unit: ``1.5 h``."""
    for size, unit in _UNITS:
        if milliseconds >= size:
            return f"{milliseconds / size:.1f} {unit}"
    return f"{milliseconds} ms"


def owner_text(owner: Owner) -> str:
    """Return what is known of a topic's broker."""
    return {Owner.NONE: "not loaded", Owner.SOME: "may be loaded", Owner.UNKNOWN: "unknown"}[owner]
