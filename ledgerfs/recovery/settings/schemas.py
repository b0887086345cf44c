"""Schemas set again by the new cluster's brokers, each with the number that messages carry.

Nothing is kept of how far it went: what the broker tells is looked at first, and before each deletion, which would take another number if
it were done twice. So a run that ended anywhere is gone on with by the next one. Two at once are kept apart by the cluster's lock, which
whoever calls this holds; without it a number that is not the expected one ends the topic with an error, one version too late.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from ledgerfs.clusters.bundles import namespace_of
from ledgerfs.errors import (
    AdminApiUnreachableError,
    AuthenticationError,
    LedgerfsError,
    NotFoundError,
    SchemaConflictError,
)
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.recovery.settings.schema_plan import SchemaPlan, progress
from ledgerfs.recovery.settings.strategies import Strategies


class SchemaRegistry(Protocol):
    """What registers schemas (`ledgerfs.schemas.admin_api.AdminApi`)."""

    def versions(self, topic: str) -> tuple[SchemaVersion, ...]:
        """Return what is there."""
        ...

    def register(self, topic: str, schema: SchemaInfo) -> int:
        """Register a schema; return its number."""
        ...

    def delete(self, topic: str) -> int:
        """Hide what is there; return the number that this takes."""
        ...


@dataclass(frozen=True, slots=True)
class RestoredSchemas:
    """What became of one topic's schemas.

    Attributes
    ----------
    topic
        Its name in the new cluster.
    done
        How many versions were registered or deleted by this call.
    error
        Why not all are there with their numbers; None if they are.

    """

    topic: str
    done: int
    error: LedgerfsError | None = None


def restore_all_schemas(
    registry: SchemaRegistry, strategies: Strategies, plans: Iterable[SchemaPlan]
) -> Iterator[RestoredSchemas]:
    """Set the schemas of topics again, one topic after the other; yield what became of each.

    The strategy of a namespace lets everything follow everything meanwhile, and is put back after its topics, whatever ends them.

    Raises what ends all of them: `AdminApiUnreachableError`, `AuthenticationError`, and the errors of a strategy that cannot be put back,
    which a later call does (`Strategies.put_back_all`).
    """
    ordered = sorted(plans, key=lambda one: (_namespace(one.topic), one.topic))
    for namespace, of_namespace in groupby(ordered, key=lambda one: _namespace(one.topic)):
        group = list(of_namespace)
        if not any(one.to_do for one in group):
            yield from (_restored(registry, one) for one in group)
            continue
        with ExitStack() as last:
            try:
                last.enter_context(strategies.permissive(namespace))
            except NotFoundError as error:
                yield from (RestoredSchemas(one.topic, 0, error) for one in group)
                continue
            yield from (_restored(registry, one) for one in group)


def restore_schemas(registry: SchemaRegistry, plan: SchemaPlan) -> int:
    """Set the schemas of one topic again, read back what the broker then has, and return how many steps were done.

    The namespace's strategy has to let them (`ledgerfs.recovery.settings.strategies.Strategies`).

    Raises
    ------
    SchemaConflictError
        The plan has a trouble, or the broker has other schemas, or gave another number: then nothing more is registered.
    UncertainRequestError, AdminApiError, AccessDeniedError, AuthenticationError, NotFoundError
        The broker did not do it, or perhaps did; the next call looks what there is.

    """
    if plan.trouble is not None:
        raise SchemaConflictError(plan.trouble, key=plan.topic)
    first = at = _required(registry, plan)
    for at in range(first, len(plan.steps)):
        step = plan.steps[at]
        if step is None:
            _delete(registry, plan, at)
        else:
            _require_number(plan, at, registry.register(plan.topic, step))
    if _required(registry, plan) < len(plan.steps):
        raise SchemaConflictError("the broker does not have all versions that it said it has", key=plan.topic)
    return max(0, len(plan.steps) - first)


def _restored(registry: SchemaRegistry, plan: SchemaPlan) -> RestoredSchemas:
    try:
        return RestoredSchemas(plan.topic, restore_schemas(registry, plan))
    except (AdminApiUnreachableError, AuthenticationError):
        raise
    except LedgerfsError as error:
        return RestoredSchemas(plan.topic, 0, error)


def _delete(registry: SchemaRegistry, plan: SchemaPlan, number: int) -> None:
    """Take a number by a deletion, if it is the next one still."""
    there = _required(registry, plan)
    if there != number:
        raise SchemaConflictError(
            f"somebody else sets its schemas: version {number} is taken since a moment ago", key=plan.topic
        )
    _require_number(plan, number, registry.delete(plan.topic))


def _required(registry: SchemaRegistry, plan: SchemaPlan) -> int:
    """Return how many steps are done; raises `SchemaConflictError` if what is there leads elsewhere."""
    there, conflict = progress(plan.steps, registry.versions(plan.topic))
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
