"""Plug-ins by entry points: sources of ledgers (``ledgerfs.sources``) and groups of commands (``ledgerfs.commands``)."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points


@cache
def plugged_in(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, without importing them."""
    return {one.name: one for one in entry_points(group=group)}
