"""Topics and their ledgers as columns, a row each; times are seconds from the moment of the dump."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.lifecycle.simulation.simulated_rule import SimulatedRule

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of topics: bytes and seconds, infinity for never and for no limit."""

    above: Floats
    after_s: Floats
    lag_s: Floats
    retention_s: Floats
    retention_bytes: Floats
    block_bytes: Floats

    @classmethod
    def of(cls, rules: Sequence[SimulatedRule]) -> "Rules":
        """Return the columns of some rules."""
        rows = np.array(
            [
                (
                    _or_never(one.offload_above_bytes, 1),
                    _or_never(one.offload_after_ms, 1000),
                    _or_never(one.deletion_lag_ms, 1000),
                    _or_never(one.retention_ms, 1000),
                    _or_never(one.retention_bytes, 1),
                    one.block_bytes,
                )
                for one in rules
            ],
            np.float64,
        ).reshape(-1, 6)
        return cls(*rows.T)

    @property
    def offloads(self) -> Mask:
        """Which topics are ever offloaded."""
        return np.isfinite(self.above) | np.isfinite(self.after_s)


def _or_never(value: int | None, unit: int) -> float:
    return np.inf if value is None or value < 0 else value / unit


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics that have ledgers.

    Attributes
    ----------
    rates
        What is written to each, bytes a second; 0 for silent ones.
    periods_s
        How often a ledger is closed; infinity for silent ones.
    next_close_s
        When the last ledger will be.
    open_bytes
        Of the last ledger.
    write_quorums
        How many bookies have each entry.
    behind_s
        For how long at least subscriptions need a ledger after it was closed.

    """

    rates: Floats
    periods_s: Floats
    next_close_s: Floats
    open_bytes: Floats
    write_quorums: Floats
    behind_s: Floats


@dataclass(frozen=True, slots=True)
class ClosedLedgers:
    """Ledgers that were closed before the dump, without the last one of each topic; by topic, the oldest first.

    Attributes
    ----------
    topics
        Rows of `Topics`.
    sizes, closed_s
        Bytes, and when each was closed: below 0.
    are_offloaded, are_hot
        Whether an offload is complete, and whether BookKeeper has them.
    offloaded_s
        When it was complete.

    """

    topics: Int64
    sizes: Floats
    closed_s: Floats
    are_offloaded: Mask
    are_hot: Mask
    offloaded_s: Floats
