"""How the schemas of a topic get the numbers again that its messages carry: what is registered and deleted, in which order.

A broker gives out numbers one after the other, to deletions, too, and the same number again to an equal schema. So each number takes one
step: a schema is registered, or all before it are deleted. A deletion is the only honest placeholder: with it nothing is decoded wrongly.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.formats.schemas.told_schema import is_as_registered, told_text
from ledgerfs.recovery.settings.last_generation import last_generation

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
    hidden
        Numbers whose messages clients take for bytes without a schema: of deleted schemas, as in the lost cluster or by `hides_lost`.
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
    hidden: tuple[int, ...] = ()
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
    carried: Iterable[int] = (),
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
    carried
        Numbers that messages are known to carry: those of which no schema is known are lost.
    hides_lost
        Whether deletions take the numbers of those that are lost.

    """
    generation = last_generation(versions)
    known, wanted = generation.by_number, {one for one in carried if one >= 0} - generation.former
    last = max([*known, *wanted], default=-1)
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
    hiding = max([last_deletion, *lost] if hides_lost else [last_deletion])
    plan = SchemaPlan(
        topic, tuple(steps), 0, lost, hides_lost, tuple(range(hiding + 1)), tuple(sorted(generation.former))
    )
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
