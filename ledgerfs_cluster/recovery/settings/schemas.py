"""Schemas set again by the new cluster's brokers, each with the number that messages carry.

Nothing is stored of how far it went: what the broker reports is read first, and before each deletion, which would take another number if
it were done twice. So the next run goes on where one ended. Two at once are kept apart by the cluster's lock; without it a number that is
not the expected one ends the topic with an error, one version too late.

Meanwhile the strategy by which a namespace lets a schema follow another is the permissive one. The former one is noted before it is
changed, so that a run after a crash puts it back. A strategy that is not the permissive one any more stays: somebody else has set it.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from itertools import groupby

from ledgerfs.errors import AuthenticationError, LedgerfsError, NotFoundError, ObjectNotFoundError, SchemaConflictError
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.errors import AdminApiUnreachableError
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.pulsar_admin.schemas import AdminApi
from ledgerfs_cluster.recovery.settings.namespaces import is_legacy_namespace, namespace_path
from ledgerfs_cluster.recovery.settings.schema_plan import SchemaPlan, progress
from ledgerfs_cluster.snapshot.answered_nodes import answered
from ledgerfs_cluster.snapshot.bundles import namespace_of
from ledgerfs_cluster.snapshot.next_ids import RECOVERY
from ledgerfs_cluster.zookeeper.changes import ClusterLock, DropNode, MakeNode

PERMISSIVE = "ALWAYS_COMPATIBLE"
_NOTES = f"{RECOVERY}/strategies"


def restore_all_schemas(
    api: AdminApi, strategies: "Strategies", plans: Iterable[SchemaPlan]
) -> dict[str, LedgerfsError]:
    """Set the schemas of topics again, one topic after the other; return {topic: why not all are there with their numbers}.

    The strategy of a namespace lets everything follow everything meanwhile, and is put back after its topics, whatever ends them.

    Raises what ends all of them: `AdminApiUnreachableError`, `AuthenticationError`, and the errors of a strategy that cannot be put back,
    which a later call does (`Strategies.put_back_all`).
    """
    failed: dict[str, LedgerfsError] = {}
    for namespace, of_namespace in groupby(
        sorted(plans, key=lambda one: _namespace(one.topic)), key=lambda one: _namespace(one.topic)
    ):
        group = list(of_namespace)
        try:
            with strategies.permissive(namespace) if any(one.to_do for one in group) else nullcontext():
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

    The namespace's strategy has to let them (`Strategies`).

    Raises
    ------
    SchemaConflictError
        The plan has a trouble, or the broker has other schemas, or gave another number: then nothing more is registered.
    UncertainRequestError, AdminApiError, AccessDeniedError, AuthenticationError, NotFoundError
        The broker did not do it, or perhaps did; the next call looks what there is.

    """
    if plan.trouble is not None:
        raise SchemaConflictError(plan.trouble, key=plan.topic)
    first = at = _required(api, plan)
    for at in range(first, len(plan.steps)):
        step = plan.steps[at]
        if step is None:
            _delete(api, plan, at)
        else:
            _require_number(plan, at, api.register(plan.topic, step))
    if _required(api, plan) < len(plan.steps):
        raise SchemaConflictError("the broker does not have all versions that it said it has", key=plan.topic)
    return max(0, len(plan.steps) - first)


def _delete(api: AdminApi, plan: SchemaPlan, number: int) -> None:
    """Take a number by a deletion, if it is the next one still."""
    there = _required(api, plan)
    if there != number:
        raise SchemaConflictError(
            f"somebody else sets its schemas: version {number} is taken since a moment ago", key=plan.topic
        )
    _require_number(plan, number, api.delete(plan.topic))


def _required(api: AdminApi, plan: SchemaPlan) -> int:
    """Return how many steps are done; raises `SchemaConflictError` if what is there leads elsewhere."""
    there, conflict = progress(plan.steps, api.versions(plan.topic))
    if conflict is not None:
        raise SchemaConflictError(conflict, key=plan.topic)
    return there


def _require_number(plan: SchemaPlan, wanted: int, got: int) -> None:
    if got != wanted:
        reason = (
            f"version {wanted} has the number {got} at the broker, so messages would be read as what they are not; "
            "somebody else sets its schemas, or the broker takes two of them for equal"
        )
        raise SchemaConflictError(reason, key=plan.topic)


def _namespace(topic: str) -> str:
    return namespace_of(managed_ledger_of(topic))


class Strategies:
    """Strategies of the new cluster's namespaces.

    All methods raise `AdminApiError` and its kinds, `AccessDeniedError`, `AuthenticationError`, and the errors of the notes.

    Parameters
    ----------
    requests
        To any broker of the cluster.
    notes
        Of what has to be put back.

    """

    __slots__ = ("_notes", "_requests")

    def __init__(self, requests: AdminRequests, notes: "StrategyNotes") -> None:
        self._requests = requests
        self._notes = notes

    @contextmanager
    def permissive(self, namespace: str) -> Iterator[None]:
        """Let every schema follow every other until the end of a block.

        Namespaces with V1 names have no such setting that could be put back: theirs stays, and brokers may refuse a schema.
        """
        if is_legacy_namespace(namespace):
            yield
            return
        strategy = self._now(namespace)
        if strategy != PERMISSIVE:
            # Also where another one is noted: since that run somebody has set this.
            self._notes.note(namespace, strategy)
        elif namespace not in self._notes.noted():
            yield
            return
        # If this is not known to be done, it may be done later: then the note stays, for a run that looks again.
        self._set(namespace, PERMISSIVE)
        try:
            yield
        finally:
            self._put_back(namespace)

    def put_back_all(self) -> list[str]:
        """Put back what an earlier run did not, and return the namespaces whose strategy was another one until now."""
        return [namespace for namespace in sorted(self._notes.noted()) if self._put_back(namespace)]

    def _put_back(self, namespace: str) -> bool:
        strategy = self._notes.noted().get(namespace)
        if strategy is None:
            return False
        try:
            is_ours = self._now(namespace) == PERMISSIVE
        except NotFoundError:
            # A namespace that was deleted meanwhile has none.
            is_ours = False
        if is_ours:
            self._set(namespace, strategy)
        self._notes.forget(namespace)
        return is_ours

    def _now(self, namespace: str) -> str:
        answer = self._requests.get(self._path(namespace)).require_ok()
        told = answer.json()
        if not isinstance(told, str):
            raise answer.unexpected("no name of a strategy")
        return told

    def _set(self, namespace: str, strategy: str) -> None:
        self._requests.change("PUT", self._path(namespace), strategy, is_repeatable=True).require_ok()

    @staticmethod
    def _path(namespace: str) -> str:
        return f"{namespace_path(namespace)}/schemaCompatibilityStrategy"


class StrategyNotes:
    """Which strategies have to be put back, in the new cluster's ZooKeeper; all methods raise the errors of the lock."""

    __slots__ = ("_lock",)

    def __init__(self, lock: ClusterLock) -> None:
        self._lock = lock

    def noted(self) -> Mapping[str, str]:
        """Return {namespace: its strategy}."""
        nodes = self._lock.newest()
        try:
            paths = [f"{_NOTES}/{name}" for name in nodes.children(_NOTES)]
        except ObjectNotFoundError:
            return {}
        found = answered(nodes.get_many, paths)
        # No tenant or namespace has a comma.
        return {path.rpartition("/")[2].replace(",", "/"): node.data.decode(errors="replace") for path, node in found}

    def note(self, namespace: str, strategy: str) -> None:
        """Note what has to be put back."""
        self._lock.commit([MakeNode(_path(namespace), strategy.encode())])

    def forget(self, namespace: str) -> None:
        """Note that nothing has to be put back any more."""
        node = self._lock.node(_path(namespace))
        if node is not None:
            self._lock.commit([DropNode(node.path, node.version)])


def _path(namespace: str) -> str:
    return f"{_NOTES}/{namespace.replace('/', ',')}"
