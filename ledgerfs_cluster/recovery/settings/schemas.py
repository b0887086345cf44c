"""Restore a topic's schemas through the new cluster's brokers, with the version numbers in its messages.

A broker assigns consecutive numbers, also to deletions, and the same number again to an equal schema. So each number takes one
step: register a schema, or delete all before it. Only a deletion is a safe placeholder: nothing is decoded wrongly with it.

No progress is stored: the broker's schemas are read first, and before each deletion, which would take another number if it were repeated.
So the next run resumes where one stopped. The cluster's lock prevents two runs at once; without it an unexpected number
stops the topic with an error, one version too late. Namespaces that a run creates accept any schema until
their schemas are set (`make_namespaces`). In others brokers may refuse a schema by the namespace's strategy.

A dump contains all versions, deleted ones, too. A saved definition replaces one that the dump lacks, if it has the hash in ZooKeeper.

After a forced deletion numbers start at 0 again, and saved schemas are of both times. Within one of these *generations* a greater number
was registered later; so a version registered before another one whose number is not greater belongs to an earlier generation. The same
schema with the same number does not start one: that occurs in a cluster that was restored before.
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
    reported_text,
)
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.pulsar_admin.schemas import AdminApi
from ledgerfs_cluster.recovery.dumped_cluster import DumpedSettings
from ledgerfs_cluster.snapshot.answers import SchemaAnswer
from ledgerfs_cluster.snapshot.bundles import namespace_of

SOURCE = "dump"
"""Source of a schema in a dump."""
MOST_STEPS = 10_000
"""Maximum number of versions that are restored of one topic: more than any real one has."""
Step = SchemaInfo | None
"""A schema to register; None for a deletion."""


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """Plan for one topic.

    Attributes
    ----------
    topic
        Topic in the new cluster.
    steps
        Step for each number, from 0 on.
    there
        Number of steps that are done already.
    lost
        {number: why its messages cannot be decoded, though the lost cluster could}. Then nothing is set, since later schemas would get
        other numbers than those in messages.
    conflict
        Why no schema can be set: the broker has others.

    """

    topic: str
    steps: tuple[Step, ...]
    there: int = 0
    lost: Mapping[int, str] = field(default_factory=dict)
    conflict: str | None = None

    @property
    def trouble(self) -> str | None:
        """Why no schemas are set; None if they are."""
        if self.conflict is not None:
            return self.conflict
        if self.lost:
            reasons = "; ".join(f"version {number}: {why}" for number, why in self.lost.items())
            return f"some versions of its schema cannot be restored: {reasons}"
        return None


def plan_schemas(topic: str, versions: Iterable[SchemaVersion], existing: Sequence[SchemaVersion]) -> SchemaPlan:
    """Return the plan to restore a topic's schemas in the new cluster.

    ``versions`` are the known ones of the lost cluster (`known_versions`), ``existing`` those that the new cluster's broker reports
    (`ledgerfs_cluster.pulsar_admin.schemas.AdminApi.versions`).
    """
    known = last_generation(versions)
    last = max(known, default=-1)
    if last >= MOST_STEPS:
        reason = f"its schemas have version numbers up to {last}, but at most {MOST_STEPS} versions can be restored"
        return SchemaPlan(topic, (), conflict=reason)
    found = [_step(known.get(number)) for number in range(last + 1)]
    steps = tuple(step for step, _ in found)
    last_deletion = max((one.version for one in known.values() if one.is_deletion), default=-1)
    lost = {number: why for number, (_, why) in enumerate(found) if why is not None and number > last_deletion}
    there, conflict = progress(steps, existing)
    return SchemaPlan(topic, steps, there, lost, conflict)


def progress(steps: Sequence[Step], existing: Sequence[SchemaVersion]) -> tuple[int, str | None]:
    """Return how many steps the broker has done by its report, and why it deviates from them; None if it does not.

    The broker does not report versions that a deletion hides: only their number is compared. Versions after the last step are producers'.
    """
    there = max((one.version for one in existing), default=-1) + 1
    hiding = max((one.version for one in existing if one.is_deletion), default=-1)
    visible = {one.version: one.schema for one in existing if not one.is_deletion}
    if hiding >= 0 and hiding < len(steps) and steps[hiding] is not None:
        return there, f"the broker has a deletion as version {hiding}, but the lost cluster had a schema"
    for number in range(hiding + 1, min(there, len(steps))):
        step, schema = steps[number], visible.get(number)
        if step is None:
            return there, f"version {number} was a deletion in the lost cluster, but is not one at the broker"
        if schema is None or not is_as_registered(step, schema):
            return there, f"the broker has a different schema as version {number}"
    if hiding >= len(steps) > 0:
        return there, f"the broker has a deletion as version {hiding}, which hides all former versions"
    return there, None


def _step(known: SchemaVersion | None) -> tuple[Step, str | None]:
    """Return the step for the next number, and why it is a deletion in place of a schema; None if it is as before."""
    if known is None:
        return None, "no dump or saved schema contains it"
    if known.is_deletion:
        return None, None
    try:
        # Brokers accept no other schema.
        reported_text(known.schema)
    except InvalidSchemaError as error:
        return None, error.reason
    return known.schema, None


def last_generation(versions: Iterable[SchemaVersion]) -> dict[int, SchemaVersion]:
    """Return the schema or deletion of each number in the last generation.

    Versions that the cluster registered take precedence; then those that rows were imported with, then those given by hand, for numbers
    without any other version.
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
        # A number that a smaller one has overtaken was assigned before a forced deletion.
        last_ms = last.saved_ms if last.is_deletion and last.timestamp_ms is None else last.timestamp_ms
        if last_ms is None or last_ms >= newest_ms:
            found[number] = last
        if number in found and last in dated:
            # A schema that a restored cluster registered again keeps its age.
            same = list(takewhile(partial(_are_same, last), reversed(dated)))
            newest_ms = max(newest_ms, same[-1].timestamp_ms or 0)
    return found


def _given(of_number: Sequence[SchemaVersion]) -> SchemaVersion | None:
    imported = [one for one in of_number if one.is_by_import]
    return imported[-1] if imported else last_word([one for one in of_number if one.is_by_hand])


def _are_same(one: SchemaVersion, other: SchemaVersion) -> bool:
    return one.is_deletion == other.is_deletion and one.schema.means_the_same(other.schema)


def _order(one: SchemaVersion) -> tuple[int, float, bool, str]:
    """Return a sort key: by number, then by time; at equal times the order is deterministic.

    The admin API does not report the time of a deletion, only that it precedes saving. A lost definition without a time comes first.
    """
    time_ms = one.timestamp_ms
    if time_ms is None:
        time_ms = -1 if not one.is_deletion else one.saved_ms
    return one.version, math.inf if time_ms is None else time_ms, not one.schema.unreadable, repr(one)


def known_versions(topic: str, settings: DumpedSettings, stores: Sequence[SchemaStore]) -> tuple[SchemaVersion, ...]:
    """Return all known versions of a former topic's schema: those of the dump first, then those of the places of saved schemas.

    A damaged version counts as unreadable. Raises `CorruptMetadataError` for a damaged locator in the dump,
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
    # A version without a time was registered before the next one with a time, and is not an older one of the same number.
    near = max((one.timestamp_ms for one in found if one.timestamp_ms is not None), default=None)
    for at in range(len(found) - 1, -1, -1):
        if found[at].timestamp_ms is None:
            found[at] = replace(found[at], timestamp_ms=near)
        near = found[at].timestamp_ms
    yield from found


def _version(
    name: str, stored: StoredVersion, answer: SchemaAnswer | None, saved: Sequence[SchemaVersion]
) -> SchemaVersion:
    """Return BookKeeper's definition of a version, a saved replacement, or one marked as unreadable with the reason."""
    why = "the dump does not contain it" if answer is None else answer.trouble or "the dump does not contain it"
    if answer is not None and answer.payload is not None:
        try:
            return replace(parse_stored_schema(answer.payload, key=name, version=stored.version), source=SOURCE)
        except (CorruptMetadataError, UnsupportedFormatError) as error:
            why = error.reason
    if not stored.hash:
        # A deletion, which consists of its number only.
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
    """Return the plan of each topic with schemas, by its managed ledger in the new cluster; read-only.

    ``topics`` are {managed ledger in the new cluster, without a partition number: the former one}; ``known_of`` returns the known versions
    of a former topic. Topics in ``new_namespaces`` have no schemas yet. Raises the errors of the admin API and of
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
            found[target] = SchemaPlan(
                topic, (), conflict=f"its schemas in the dump or the saved schemas are damaged: {error}"
            )
            continue
        if versions:
            there = () if namespace_of(target) in new_namespaces else AdminApi(requests).versions(topic)
            found[target] = plan_schemas(topic, versions, there)
    return found


def restore_all_schemas(requests: AdminRequests, plans: Iterable[SchemaPlan]) -> dict[str, LedgerfsError]:
    """Restore the schemas of topics, one topic after the other; return {topic: why not all have their numbers}.

    Raises the errors that stop all topics: `AdminApiUnreachableError` and `AuthenticationError`.
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
    """Restore the schemas of one topic, read back the broker's versions, and return the number of steps done.

    The namespace's strategy has to permit them.

    Raises
    ------
    SchemaConflictError
        The plan has a trouble, or the broker has other schemas or assigned another number: nothing more is registered then.
    UncertainRequestError, AdminApiError, AccessDeniedError, AuthenticationError, NotFoundError
        The broker did not do it, or perhaps did; the next call checks that.

    """
    if plan.trouble is not None:
        raise SchemaConflictError(plan.trouble, key=plan.topic)
    first = _required(api, plan)
    for number in range(first, len(plan.steps)):
        step = plan.steps[number]
        if step is None and _required(api, plan) != number:
            reason = f"another client registers schemas of this topic at the same time: version {number} is now in use"
            raise SchemaConflictError(reason, key=plan.topic)
        taken = api.delete(plan.topic) if step is None else api.register(plan.topic, step)
        if taken != number:
            reason = (
                f"the broker registered version {number} as {taken}, so messages would be decoded with the wrong schema: another client "
                "registers schemas at the same time, or the broker treats two versions as equal"
            )
            raise SchemaConflictError(reason, key=plan.topic)
    if _required(api, plan) < len(plan.steps):
        raise SchemaConflictError("the broker lacks versions that it reported as registered", key=plan.topic)
    return max(0, len(plan.steps) - first)


def _required(api: AdminApi, plan: SchemaPlan) -> int:
    """Return the number of steps that are done; raises `SchemaConflictError` if the broker's versions deviate."""
    there, conflict = progress(plan.steps, api.versions(plan.topic))
    if conflict is not None:
        raise SchemaConflictError(conflict, key=plan.topic)
    return there
