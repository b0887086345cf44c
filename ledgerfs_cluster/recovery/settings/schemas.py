"""Schemas set again by the new cluster's brokers, each with the number that messages carry.

Nothing is stored of how far it went: what the broker reports is read first, and before each deletion, which would take another number if
it were done twice. So the next run goes on where one ended. Two at once are kept apart by the cluster's lock; without it a number that is
not the expected one ends the topic with an error, one version too late.

Meanwhile the strategy by which a namespace lets a schema follow another is the permissive one. The former one is noted before it is
changed, so that a run after a crash puts it back. A strategy that is not the permissive one any more stays: somebody else has set it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress

from ledgerfs.errors import (
    AuthenticationError,
    CorruptMetadataError,
    InvalidNameError,
    LedgerfsError,
    NotFoundError,
    ObjectNotFoundError,
    SchemaConflictError,
)
from ledgerfs.formats.schemas.schema_info import SchemaVersion
from ledgerfs.formats.topic_names import managed_ledger_of, parse_managed_ledger_name, topic_of
from ledgerfs_cluster.errors import AdminApiUnreachableError
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.pulsar_admin.schemas import AdminApi
from ledgerfs_cluster.recovery.settings.namespaces import is_legacy_namespace, namespace_path
from ledgerfs_cluster.recovery.settings.schema_plan import SchemaPlan, plan_schemas, progress
from ledgerfs_cluster.snapshot.answered_nodes import answered
from ledgerfs_cluster.snapshot.bundles import namespace_of
from ledgerfs_cluster.snapshot.next_ids import RECOVERY
from ledgerfs_cluster.zookeeper.changes import ClusterLock, DropNode, MakeNode

PERMISSIVE = "ALWAYS_COMPATIBLE"
_NOTES = f"{RECOVERY}/strategies"


def plan_topics(
    requests: AdminRequests,
    topics: Mapping[str, str],
    known_of: Callable[[str], Sequence[SchemaVersion]],
    new_namespaces: Collection[str],
    *,
    hides_lost: bool = False,
) -> dict[str, SchemaPlan]:
    """Return a plan of each topic that has schemas, by its managed ledger in the new cluster; nothing is changed.

    ``topics`` are {managed ledger in the new cluster, without the number of a partition: the former one}, and ``known_of`` returns all that
    is known of the schemas of a former topic. Topics of ``new_namespaces`` have no schemas yet. With ``hides_lost`` deletions take the
    numbers of those that are lost. Raises the errors of the admin API and of saved schemas.
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
            found[target] = plan_schemas(topic, versions, there, hides_lost=hides_lost)
    return found


def restore_all_schemas(
    requests: AdminRequests, lock: ClusterLock, plans: Iterable[SchemaPlan]
) -> dict[str, LedgerfsError]:
    """Set the schemas of topics again, one topic after the other; return {topic: why not all are there with their numbers}.

    The strategy of a namespace lets everything follow everything meanwhile, and is put back after its topics, whatever ends them. What an
    earlier run left has to be put back before (`put_back_strategies`).

    Raises what ends all of them: `AdminApiUnreachableError`, `AuthenticationError`, and the errors of a strategy that cannot be put back.
    """
    api, failed = AdminApi(requests), dict[str, LedgerfsError]()
    by_namespace: dict[str, list[SchemaPlan]] = {}
    for one in plans:
        by_namespace.setdefault(namespace_of(managed_ledger_of(one.topic)), []).append(one)
    for namespace, group in sorted(by_namespace.items()):
        is_due = any(one.to_do for one in group)
        try:
            with _permissive(requests, lock, namespace) if is_due else nullcontext():
                for plan in group:
                    try:
                        restore_schemas(api, plan)
                    except (AdminApiUnreachableError, AuthenticationError):
                        raise
                    except LedgerfsError as error:
                        failed[plan.topic] = error
        except NotFoundError as error:
            # The namespace is not there.
            failed |= {one.topic: error for one in group}
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


@contextmanager
def _permissive(requests: AdminRequests, lock: ClusterLock, namespace: str) -> Iterator[None]:
    """Let every schema follow every other until the end of a block.

    Namespaces with V1 names have no such setting that could be put back: theirs stays, and brokers may refuse a schema.
    """
    if is_legacy_namespace(namespace) or (strategy := _strategy(requests, namespace)) == PERMISSIVE:
        yield
        return
    lock.commit([MakeNode(_note_path(namespace), strategy.encode())])
    # If this is not known to be done, it may be done later: then the note stays, for the next run.
    _set_strategy(requests, namespace, PERMISSIVE)
    try:
        yield
    finally:
        _put_back(requests, lock, namespace, strategy)


def put_back_strategies(requests: AdminRequests, lock: ClusterLock) -> None:
    """Put back the strategies that an earlier run did not; raises the errors of the admin API and of the lock."""
    nodes = lock.newest()
    try:
        paths = [f"{_NOTES}/{name}" for name in nodes.children(_NOTES)]
    except ObjectNotFoundError:
        return
    for path, node in answered(nodes.get_many, paths):
        # No tenant or namespace has a comma.
        namespace = path.rpartition("/")[2].replace(",", "/")
        _put_back(requests, lock, namespace, node.data.decode(errors="replace"))


def _put_back(requests: AdminRequests, lock: ClusterLock, namespace: str, strategy: str) -> None:
    """Set the former strategy of a namespace, unless it has another one or is gone, and forget the note of it."""
    # A namespace that was deleted meanwhile has none.
    with suppress(NotFoundError):
        if _strategy(requests, namespace) == PERMISSIVE:
            _set_strategy(requests, namespace, strategy)
    node = lock.node(_note_path(namespace))
    if node is not None:
        lock.commit([DropNode(node.path, node.version)])


def _strategy(requests: AdminRequests, namespace: str) -> str:
    answer = requests.get(f"{namespace_path(namespace)}/schemaCompatibilityStrategy").require_ok()
    told = answer.json()
    if not isinstance(told, str):
        raise answer.unexpected("no name of a strategy")
    return told


def _set_strategy(requests: AdminRequests, namespace: str, strategy: str) -> None:
    path = f"{namespace_path(namespace)}/schemaCompatibilityStrategy"
    requests.change("PUT", path, strategy, is_repeatable=True).require_ok()


def _note_path(namespace: str) -> str:
    return f"{_NOTES}/{namespace.replace('/', ',')}"
