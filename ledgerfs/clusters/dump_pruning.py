"""Which kept dumps are not wanted any more: a pure function over one listing, for whoever has just added one.

Times are the store's own, of objects: ages are between the dump that was just added and the others, so a clock of ours that jumps makes no
dump old. A full dump goes only when no delta that stays needs it, and not for a day after a newer full one came: a dumper that is at work
meanwhile may have chosen it as the base of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ledgerfs.clusters.kept_dump_names import KeptDump

BASE_GRACE_MS = 86_400_000
"""How long a full dump stays behind the next one; who began a delta longer ago must not add it any more."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """What is kept of a cluster's dumps: so many, and besides all that are younger, ms."""

    count: int
    younger_ms: int


def superfluous(kept: Sequence[KeptDump], added: KeptDump, keeping: Keeping) -> list[KeptDump]:
    """Return which of a listing of the dumps of one cluster may go, deltas first: ended in between, it leaves no delta without its base.

    Deltas whose bases are not there count for nothing, and stay: a copy of the bucket may be under way.
    """
    keys = {one.key for one in kept}
    readable = [one for one in kept if one.base is None or one.base in keys]
    newest_first = sorted(readable, key=lambda one: (one.taken_ms, one.key), reverse=True)
    stay = {added.key, *(one.key for one in newest_first[: keeping.count])}
    stay |= {one.key for one in readable if _is_younger(one, added, keeping.younger_ms)}
    stay |= _possible_bases((one for one in newest_first if not one.is_delta), added)
    stay |= {one.base for one in readable if one.base is not None and one.key in stay}
    return sorted((one for one in readable if one.key not in stay), key=lambda one: (not one.is_delta, one.taken_ms))


def _possible_bases(newest_first: Iterable[KeptDump], added: KeptDump) -> set[str]:
    """Return the full dumps that somebody may be writing a delta of: the newest, and those that were that less than the grace ago."""
    found: set[str] = set()
    earliest_ms: int | None = None
    for one in newest_first:
        if earliest_ms is None or not added.stat.modified_ms - earliest_ms > BASE_GRACE_MS:
            found.add(one.key)
        earliest_ms = min(one.stat.modified_ms, one.stat.modified_ms if earliest_ms is None else earliest_ms)
    return found


def _is_younger(one: KeptDump, added: KeptDump, age_ms: int) -> bool:
    """Whether an object was made less than so long before another one, or the store does not tell when."""
    times = one.stat.modified_ms, added.stat.modified_ms
    return not all(times) or times[1] - times[0] < age_ms
