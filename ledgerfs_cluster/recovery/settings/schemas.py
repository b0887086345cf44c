"""Schemas set again by the new cluster's brokers, each with the number that messages carry.

Nothing is stored of how far it went: what the broker reports is read first, and before each deletion, which would take another number if
it were done twice. So the next run goes on where one ended. Two at once are kept apart by the cluster's lock; without it a number that is
not the expected one ends the topic with an error, one version too late.

Namespaces that a run makes let every schema follow every other until its schemas are set (`make_namespaces`). In others brokers may refuse
a schema by the strategy that these have.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ledgerfs.errors import (
    AuthenticationError,
    CorruptMetadataError,
    InvalidNameError,
    LedgerfsError,
    SchemaConflictError,
)
from ledgerfs.formats.schemas.schema_info import SchemaVersion
from ledgerfs.formats.topic_names import parse_managed_ledger_name, topic_of
from ledgerfs_cluster.errors import AdminApiUnreachableError
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.pulsar_admin.schemas import AdminApi
from ledgerfs_cluster.recovery.settings.schema_plan import SchemaPlan, plan_schemas, progress
from ledgerfs_cluster.snapshot.bundles import namespace_of


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
