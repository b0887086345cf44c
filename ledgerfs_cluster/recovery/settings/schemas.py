"""The schemas of a topic, set again by the new cluster's brokers with the numbers that its messages carry.

A broker gives out numbers one after the other, to deletions, too, and the same number again to an equal schema. So each number takes one
step: a schema is registered, or all before it are deleted. A deletion is the only honest placeholder: with it nothing is decoded wrongly.

Nothing is stored of how far it went: what the broker reports is read first, and before each deletion, which would take another number if
it were done twice. So the next run goes on where one ended. Two at once are kept apart by the cluster's lock; without it a number that is
not the expected one ends the topic with an error, one version too late. Namespaces that a run makes let every schema follow every other
until its schemas are set (`make_namespaces`). In others brokers may refuse a schema by the strategy that these have.

A dump has all versions, deleted ones, too. Where it could not get a definition, one that is saved stands in for it, if it has the hash
that ZooKeeper had.

After a forced deletion numbers begin at 0 again, and what was saved is of both times. Within one of these *generations* a greater number
was registered later; so what was registered before something with a number that is not greater is of a generation before. The same schema
with the same number begins none: it is what a cluster looks like that was restored before.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, takewhile

from ledgerfs.errors import (
    AuthenticationError,
    CorruptMetadataError,
    InvalidNameError,
    InvalidSchemaError,
    LedgerfsError,
    SchemaConflictError,
    UnsupportedFormatError,
)
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.formats.schemas.schema_versions import last_word
from ledgerfs.formats.topic_names import parse_managed_ledger_name, topic_of
from ledgerfs.schemas.saved_schemas import SchemaStore
from ledgerfs_cluster.errors import AdminApiUnreachableError
from ledgerfs_cluster.formats.stored_schema import (
    StoredVersion,
    has_hash,
    is_as_registered,
    locator_path,
    parse_locator,
    parse_stored_schema,
    told_text,
)
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.pulsar_admin.schemas import AdminApi
from ledgerfs_cluster.recovery.dumped_cluster import DumpedSettings
from ledgerfs_cluster.snapshot.answers import SchemaAnswer
from ledgerfs_cluster.snapshot.bundles import namespace_of

SOURCE = "dump"
"""The source of a schema that a dump of the cluster has."""
MOST_STEPS = 10_000
"""Versions of one topic that are set again: more than any real one has."""
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
        {number: why its messages cannot be decoded, though the lost cluster could}. Then nothing is set, since later schemas would get
        other numbers than messages carry.
    conflict
        Why nothing can be set: the broker has others.

    """

    topic: str
    steps: tuple[Step, ...]
    there: int = 0
    lost: Mapping[int, str] = field(default_factory=dict)
    conflict: str | None = None

    @property
    def trouble(self) -> str | None:
        """Why nothing is set; None if all is."""
        if self.conflict is not None:
            return self.conflict
        if self.lost:
            told = "; ".join(f"version {number}: {why}" for number, why in self.lost.items())
            return f"not all versions of its schema can be set again: {told}"
        return None


def plan_schemas(topic: str, versions: Iterable[SchemaVersion], existing: Sequence[SchemaVersion]) -> SchemaPlan:
    """Return what sets the schemas of a topic of the new cluster again.

    ``versions`` are all that is known of the lost cluster's (`known_versions`), ``existing`` what the new cluster's broker reports
    (`ledgerfs_cluster.pulsar_admin.schemas.AdminApi.versions`).
    """
    known = last_generation(versions)
    last = max(known, default=-1)
    if last >= MOST_STEPS:
        reason = f"its schemas have numbers up to {last}, and not more than {MOST_STEPS} are set again"
        return SchemaPlan(topic, (), conflict=reason)
    found = [_step(known.get(number)) for number in range(last + 1)]
    steps = tuple(step for step, _ in found)
    last_deletion = max((one.version for one in known.values() if one.is_deletion), default=-1)
    lost = {number: why for number, (_, why) in enumerate(found) if why is not None and number > last_deletion}
    there, conflict = progress(steps, existing)
    return SchemaPlan(topic, steps, there, lost, conflict)


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


def _step(known: SchemaVersion | None) -> tuple[Step, str | None]:
    """Return what takes the next number, and why it is only a deletion in place of a schema that was there; None if it is as it was."""
    if known is None:
        return None, "nothing is known of it"
    if known.is_deletion:
        return None, None
    try:
        # Brokers take no other schema.
        told_text(known.schema)
    except InvalidSchemaError as error:
        return None, error.reason
    return known.schema, None


def last_generation(versions: Iterable[SchemaVersion]) -> dict[int, SchemaVersion]:
    """Return the schema, or the deletion, of each number at the end.

    What the cluster registered comes first; then what rows were imported with, and then what users gave by hand, for numbers of which
    nothing else is known.
    """
    known = sorted((one for one in versions if one.version >= 0), key=_order)
    found: dict[int, SchemaVersion] = {}
    newest_ms = 0
    for number, group in groupby(known, key=lambda one: one.version):
        of_number = list(group)
        registered = [one for one in of_number if not (one.is_by_hand or one.is_by_import)]
        last = registered[-1] if registered else _given(of_number)
        if last is None:
            continue
        dated = [one for one in registered if one.timestamp_ms is not None]
        # A number that a smaller one has overtaken was given before a forced deletion.
        last_ms = last.saved_ms if last.is_deletion and last.timestamp_ms is None else last.timestamp_ms
        if last_ms is None or last_ms >= newest_ms:
            found[number] = last
        if number in found and last in dated:
            # What a restored cluster registered again is as old as it was.
            same = list(takewhile(partial(_are_same, last), reversed(dated)))
            newest_ms = max(newest_ms, same[-1].timestamp_ms or 0)
    return found


def _given(of_number: Sequence[SchemaVersion]) -> SchemaVersion | None:
    imported = [one for one in of_number if one.is_by_import]
    return imported[-1] if imported else last_word([one for one in of_number if one.is_by_hand])


def _are_same(one: SchemaVersion, other: SchemaVersion) -> bool:
    return one.is_deletion == other.is_deletion and one.schema.means_the_same(other.schema)


def _order(one: SchemaVersion) -> tuple[int, float, bool, str]:
    """Return what orders versions by numbers, and those of one number by times: of one time the order is the same for everybody.

    The admin API does not tell when a deletion was, but before it was saved. A definition that is lost and has no time comes first.
    """
    time_ms = one.timestamp_ms
    if time_ms is None:
        time_ms = -1 if not one.is_deletion else one.saved_ms
    return one.version, math.inf if time_ms is None else time_ms, not one.schema.unreadable, repr(one)


def known_versions(topic: str, settings: DumpedSettings, stores: Sequence[SchemaStore]) -> tuple[SchemaVersion, ...]:
    """Return all versions of a former topic's schema that are known: those of the dump first, then those of the places of saved schemas.

    A version that is damaged is one that cannot be read. Raises `CorruptMetadataError` for a damaged locator in the dump,
    `InvalidNameError`, and the errors of the stores.
    """
    saved = [one for store in stores for one in store.versions(topic)]
    return (*_dumped(locator_path(topic, root="").lstrip("/"), settings, saved), *saved)


def _dumped(name: str, settings: DumpedSettings, saved: Sequence[SchemaVersion]) -> Iterator[SchemaVersion]:
    locator = settings.locators.get(name)
    if locator is None:
        return
    answers = {one.version: one for one in settings.schemas.get(name, ())}
    found = [_version(name, one, answers.get(one.version), saved) for one in parse_locator(locator, key=name)]
    # What has no time was registered before the next one that has, and is no older one of the same number.
    near = max((one.timestamp_ms for one in found if one.timestamp_ms is not None), default=None)
    for at in range(len(found) - 1, -1, -1):
        if found[at].timestamp_ms is None:
            found[at] = replace(found[at], timestamp_ms=near)
        near = found[at].timestamp_ms
    yield from found


def _version(
    name: str, stored: StoredVersion, answer: SchemaAnswer | None, saved: Sequence[SchemaVersion]
) -> SchemaVersion:
    """Return what BookKeeper had of a version, or what stands in for it, or that it cannot be read, and why."""
    why = "the dump has no entry of it" if answer is None else answer.trouble or "the dump has no entry of it"
    if answer is not None and answer.payload is not None:
        try:
            return replace(parse_stored_schema(answer.payload, key=name, version=stored.version), source=SOURCE)
        except (CorruptMetadataError, UnsupportedFormatError) as error:
            why = error.reason
    if not stored.hash:
        # A deletion, whose number is all that there is to it.
        return SchemaVersion(stored.version, SchemaInfo("NONE"), is_deletion=True, source=SOURCE)
    of_number = (one for one in saved if one.version == stored.version and not one.is_deletion)
    lost = SchemaVersion(stored.version, SchemaInfo("NONE", unreadable=why), source=SOURCE)
    return next((replace(one, source=SOURCE) for one in of_number if has_hash(one.schema, stored.hash)), lost)


def plan_topics(
    requests: AdminRequests,
    topics: Mapping[str, str],
    known_of: Callable[[str], Sequence[SchemaVersion]],
    new_namespaces: Collection[str],
) -> dict[str, SchemaPlan]:
    """Return a plan of each topic that has schemas, by its managed ledger in the new cluster; nothing is changed.

    ``topics`` are {managed ledger in the new cluster, without the number of a partition: the former one}, and ``known_of`` returns all that
    is known of the schemas of a former topic. Topics of ``new_namespaces`` have no schemas yet. Raises the errors of the admin API and of
    saved schemas.
    """
    found: dict[str, SchemaPlan] = {}
    for target, source in topics.items():
        topic = topic_of(target)
        if parse_managed_ledger_name(source) is None or parse_managed_ledger_name(target) is None:
            continue
        try:
            versions = known_of(topic_of(source))
        except (CorruptMetadataError, InvalidNameError) as error:
            found[target] = SchemaPlan(topic, (), conflict=f"what is known of its schemas is damaged: {error}")
            continue
        if versions:
            there = () if namespace_of(target) in new_namespaces else AdminApi(requests).versions(topic)
            found[target] = plan_schemas(topic, versions, there)
    return found


def restore_all_schemas(requests: AdminRequests, plans: Iterable[SchemaPlan]) -> dict[str, LedgerfsError]:
    """Set the schemas of topics again, one topic after the other; return {topic: why not all are there with their numbers}.

    Raises what ends all of them: `AdminApiUnreachableError` and `AuthenticationError`.
    """
    api, failed = AdminApi(requests), dict[str, LedgerfsError]()
    for plan in plans:
        try:
            restore_schemas(api, plan)
        except (AdminApiUnreachableError, AuthenticationError):
            raise
        except LedgerfsError as error:
            failed[plan.topic] = error
    return failed


def restore_schemas(api: AdminApi, plan: SchemaPlan) -> int:
    """Set the schemas of one topic again, read back what the broker then has, and return how many steps were done.

    The namespace's strategy has to let them.

    Raises
    ------
    SchemaConflictError
        The plan has a trouble, or the broker has other schemas, or gave another number: then nothing more is registered.
    UncertainRequestError, AdminApiError, AccessDeniedError, AuthenticationError, NotFoundError
        The broker did not do it, or perhaps did; the next call looks what there is.

    """
    if plan.trouble is not None:
        raise SchemaConflictError(plan.trouble, key=plan.topic)
    first = _required(api, plan)
    for number in range(first, len(plan.steps)):
        step = plan.steps[number]
        if step is None and _required(api, plan) != number:
            reason = f"another client sets its schemas: version {number} is taken since a moment ago"
            raise SchemaConflictError(reason, key=plan.topic)
        taken = api.delete(plan.topic) if step is None else api.register(plan.topic, step)
        if taken != number:
            reason = (
                f"version {number} has the number {taken} at the broker, so messages would be read as what they are not; "
                "another client sets its schemas, or the broker takes two of them for equal"
            )
            raise SchemaConflictError(reason, key=plan.topic)
    if _required(api, plan) < len(plan.steps):
        raise SchemaConflictError("the broker does not have all versions that it said it has", key=plan.topic)
    return max(0, len(plan.steps) - first)


def _required(api: AdminApi, plan: SchemaPlan) -> int:
    """Return how many steps are done; raises `SchemaConflictError` if what is there leads elsewhere."""
    there, conflict = progress(plan.steps, api.versions(plan.topic))
    if conflict is not None:
        raise SchemaConflictError(conflict, key=plan.topic)
    return there
