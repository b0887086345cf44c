"""What outcomes contain, as tests compare it."""

from collections.abc import Iterable

from ledgerfs_cluster.offload.outcomes import Outcome, Status


def done(outcomes: Iterable[Outcome]) -> list[int]:
    """Return the ledgers that something was done to."""
    return [one for outcome in outcomes if outcome.status is Status.OK for one in outcome.ledger_ids]


def left(outcomes: Iterable[Outcome]) -> dict[int, str]:
    """Return {ledger: why nothing was done to it}."""
    some = (outcome for outcome in outcomes if outcome.status is not Status.OK)
    return {one: outcome.message for outcome in some for one in outcome.ledger_ids}


def remarks(outcomes: Iterable[Outcome]) -> list[str]:
    """Return what went wrong besides."""
    return [one.message for one in outcomes if one.status is Status.FAILED and not one.ledger_ids]
