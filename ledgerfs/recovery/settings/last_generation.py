"""Which schemas a topic's numbers meant at the end, of all that was saved of them at any time.

After a forced deletion numbers begin at 0 again, and what was saved is of both times. Within one of these *generations* a greater number
was registered later; so what was registered before something with a number that is not greater is of a generation before. The same schema
with the same number begins none: it is what a cluster looks like that was restored before.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ledgerfs.formats.schemas.schema_info import LARGEST_VERSION, SchemaVersion
from ledgerfs.formats.schemas.schema_versions import last_word


@dataclass(frozen=True, slots=True)
class Generation:
    """What numbers mean.

    Attributes
    ----------
    by_number
        The schema, or the deletion, of each number that is known.
    former
        Numbers that meant another schema before a forced deletion, or none after it.

    """

    by_number: dict[int, SchemaVersion]
    former: frozenset[int]


def last_generation(versions: Iterable[SchemaVersion]) -> Generation:
    """Return the last generation of what is known of a topic, in whatever order.

    What the cluster registered comes first; then what rows were imported with, and then what users gave by hand, for numbers of which
    nothing else is known.
    """
    known = [one for one in versions if one.version >= 0]
    registered = [one for one in known if not (one.is_by_hand or one.is_by_import)]
    dated = [one for one in registered if one.timestamp_ms is not None]
    found = _not_overtaken(dated)
    former = {one.version for one in dated if not _is_said(one, found.get(one.version))}
    _add_undated([one for one in registered if one.timestamp_ms is None], found)
    for number in sorted({one.version for one in known} - found.keys() - former):
        other = _said_otherwise([one for one in known if one.version == number])
        if other is not None:
            found[number] = other
    return Generation(found, frozenset(former))


def _not_overtaken(dated: Sequence[SchemaVersion]) -> dict[int, SchemaVersion]:
    """Return what is of the last generation, by its number; of the same one the last."""
    found: dict[int, SchemaVersion] = {}
    alike: dict[int, list[SchemaVersion]] = {}
    for one in dated:
        alike.setdefault(one.version, []).append(one)
    least = LARGEST_VERSION + 1
    waiting: list[SchemaVersion] = []
    for one in sorted(dated, key=_order, reverse=True):
        if waiting and _time(waiting[0]) > _time(one):
            least, waiting = min(least, *(other.version for other in waiting)), []
        if one.version < least:
            found.setdefault(one.version, one)
        if not any(_time(other) < _time(one) and _is_said(other, one) for other in alike[one.version]):
            waiting.append(one)
    return found


def _add_undated(undated: Sequence[SchemaVersion], found: dict[int, SchemaVersion]) -> None:
    """Add versions whose definition is lost, and deletions: the admin API does not tell when these were, but before they were saved."""
    for one in sorted(undated, key=lambda one: (one.version, one.is_deletion, one.saved_ms or 0)):
        counts = not _is_of_before(one, found) if one.is_deletion else one.version not in found
        if counts:
            found[one.version] = one


def _is_of_before(deletion: SchemaVersion, found: dict[int, SchemaVersion]) -> bool:
    """Whether something that a deletion would hide was registered after this was saved."""
    hidden = (_time(one) for number, one in found.items() if number <= deletion.version)
    return deletion.saved_ms is not None and deletion.saved_ms < max(hidden, default=0)


def _said_otherwise(known: Sequence[SchemaVersion]) -> SchemaVersion | None:
    imported = [one for one in known if one.is_by_import]
    return imported[-1] if imported else last_word([one for one in known if one.is_by_hand])


def _is_said(one: SchemaVersion, said: SchemaVersion | None) -> bool:
    if said is None:
        return False
    return one.is_deletion == said.is_deletion and one.schema.means_the_same(said.schema)


def _order(one: SchemaVersion) -> tuple[int, bool, str]:
    """Return what orders those of one number: of one time everybody takes the same one, and one that can be read."""
    return _time(one), not one.schema.unreadable, repr(one)


def _time(one: SchemaVersion) -> int:
    return one.timestamp_ms or 0
