"""How the schemas of a topic get the numbers again that its messages carry: what is registered and deleted, in which order.

A broker gives out numbers one after the other, to deletions, too, and the same number again to an equal schema. So each number takes one
step: a schema is registered, or all before it are deleted. A deletion is the only honest placeholder: with it nothing is decoded wrongly.

After a forced deletion numbers begin at 0 again, and what was saved is of both times. Within one of these *generations* a greater number
was registered later; so what was registered before something with a number that is not greater is of a generation before. The same schema
with the same number begins none: it is what a cluster looks like that was restored before.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.schema_info import LARGEST_VERSION, SchemaInfo, SchemaVersion
from ledgerfs.formats.schemas.schema_versions import last_word
from ledgerfs.formats.schemas.told_schema import is_as_registered, told_text

MOST_STEPS = 10_000
"""Versions of one topic that are set again: more than any real one has."""
_OF_AVRO = frozenset({"AVRO", "JSON", "PROTOBUF"})
"""Types whose definitions brokers compare as Avro does, and not their bytes."""

Step = SchemaInfo | None
"""A schema that is registered; None for a deletion."""


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """What is done for one topic.

    Attributes
    ----------
    topic
        In the new cluster.
    steps
        What takes each number, from 0 on.
    there
        How many of them are done already.
    lost
        {number: why its messages cannot be decoded, though the lost cluster could}. Unless they are hidden nothing is set, since later
        schemas would get other numbers than messages carry.
    hides_lost
        Whether deletions take the numbers of those that are lost; they hide all before them, too.
    former
        Numbers that meant other schemas before a forced deletion, which no cluster can have again beside those of today.
    conflict
        Why nothing can be set: the broker has others.

    """

    topic: str
    steps: tuple[Step, ...]
    there: int = 0
    lost: Mapping[int, str] = field(default_factory=dict)
    hides_lost: bool = False
    former: tuple[int, ...] = ()
    conflict: str | None = None

    @property
    def trouble(self) -> str | None:
        """Why nothing is set; None if all is."""
        if self.conflict is not None:
            return self.conflict
        if self.lost and not self.hides_lost:
            told = "; ".join(f"version {number}: {why}" for number, why in self.lost.items())
            return f"not all versions of its schema can be set again: {told}"
        return None

    @property
    def to_do(self) -> int:
        """How many steps are left."""
        return 0 if self.trouble is not None else max(0, len(self.steps) - self.there)


def plan_schemas(
    topic: str,
    versions: Iterable[SchemaVersion],
    existing: Sequence[SchemaVersion],
    *,
    hides_lost: bool = False,
) -> SchemaPlan:
    """Return what sets the schemas of a topic again.

    Parameters
    ----------
    topic
        As it is named in the new cluster.
    versions
        All that is known of the lost cluster's (`ledgerfs.recovery.settings.schema_sources.known_versions`).
    existing
        What the new cluster's broker tells (`ledgerfs.schemas.admin_api.AdminApi.versions`).
    hides_lost
        Whether deletions take the numbers of those that are lost.

    """
    generation = last_generation(versions)
    known = generation.by_number
    last = max(known, default=-1)
    if last >= MOST_STEPS:
        reason = f"its schemas have numbers up to {last}, and not more than {MOST_STEPS} are set again"
        return SchemaPlan(topic, (), conflict=reason)
    steps: list[Step] = []
    troubles: dict[int, str] = {}
    said: dict[tuple[str, str], int] = {}
    for number in range(last + 1):
        step, trouble = _step(known.get(number), said)
        steps.append(step)
        if trouble is not None:
            troubles[number] = trouble
        if step is None:
            said.clear()
        else:
            said[step.type, _said_by(step)] = number
    last_deletion = max((one.version for one in known.values() if one.is_deletion), default=-1)
    lost = {number: why for number, why in troubles.items() if number > last_deletion}
    plan = SchemaPlan(topic, tuple(steps), 0, lost, hides_lost, tuple(sorted(generation.former)))
    there, conflict = progress(plan.steps, existing)
    return replace(plan, there=there, conflict=conflict)


def progress(steps: Sequence[Step], existing: Sequence[SchemaVersion]) -> tuple[int, str | None]:
    """Return how many steps the broker has done by what it tells, and why it is not what steps lead to; None if it is.

    What a deletion hides the broker does not tell: only its number is compared. Versions beyond the last step are those of producers.
    """
    there = max((one.version for one in existing), default=-1) + 1
    hiding = max((one.version for one in existing if one.is_deletion), default=-1)
    visible = {one.version: one.schema for one in existing if not one.is_deletion}
    if hiding >= 0 and hiding < len(steps) and steps[hiding] is not None:
        return there, f"the broker has a deletion as version {hiding}, which was a schema"
    for number in range(hiding + 1, min(there, len(steps))):
        step, schema = steps[number], visible.get(number)
        if step is None:
            return there, f"the broker does not have version {number} as a deletion, which it was"
        if schema is None or not is_as_registered(step, schema):
            return there, f"the broker has another schema as version {number}"
    if hiding >= len(steps) > 0:
        return there, f"the broker has a deletion as version {hiding}, behind all that were there, and hides them"
    return there, None


def _step(known: SchemaVersion | None, said: Mapping[tuple[str, str], int]) -> tuple[Step, str | None]:
    """Return what takes the next number, and why it is only a deletion in place of a schema that was there; None if it is as it was.

    ``said`` is what schemas since the last deletion say, with their numbers. Where definitions are only much alike the broker's answer
    tells: here they are equal in all that they say.
    """
    if known is None:
        return None, "nothing is known of it"
    if known.is_deletion:
        return None, None
    try:
        same = said.get((known.schema.type, _said_by(known.schema)))
    except InvalidSchemaError as error:
        return None, error.reason
    if same is not None:
        return None, f"it is the same as version {same}, of which a broker gives it the number"
    return known.schema, None


def _said_by(schema: SchemaInfo) -> str:
    """Return a text that is equal for schemas that brokers take for equal; raises `InvalidSchemaError` for one that they do not take."""
    text = told_text(schema)
    if schema.type not in {*_OF_AVRO, "KEY_VALUE"}:
        return text
    try:
        # Of pairs brokers compare the text, without the blanks.
        return json.dumps(json.loads(text), sort_keys=schema.type in _OF_AVRO)
    except (ValueError, RecursionError):
        return text


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
