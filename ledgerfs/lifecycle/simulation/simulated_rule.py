"""What a simulation knows of the rule of a topic."""

from dataclasses import dataclass

from ledgerfs.lifecycle.policy.topic_rules import TopicRule

BLOCK_BYTES = 64 << 20
"""Of a block of a data object where no bucket is known."""


@dataclass(frozen=True, slots=True)
class SimulatedRule:
    """The rule of a topic.

    Attributes
    ----------
    offload_above_bytes, offload_after_ms
        Ledgers are offloaded while what is closed from them on is more, or so long after they were closed; None for never.
    deletion_lag_ms
        For how long after its offload a ledger stays in BookKeeper; None for ever.
    retention_ms, retention_bytes
        What is kept that subscriptions have passed; below 0 for no limit.
    block_bytes
        Of a block of the data object, which is one part of its upload.

    """

    offload_above_bytes: int | None = None
    offload_after_ms: int | None = None
    deletion_lag_ms: int | None = None
    retention_ms: int = 0
    retention_bytes: int = 0
    block_bytes: int = BLOCK_BYTES


def simulated_rule_of(rule: TopicRule) -> SimulatedRule:
    """Return what a simulation knows of a rule."""
    size, time_ms = rule.thresholds.size, rule.thresholds.time_ms
    return SimulatedRule(
        size if rule.offload and size >= 0 else None,
        time_ms if rule.offload and time_ms >= 0 else None,
        rule.deletion_lag_ms if rule.deletion_lag_ms >= 0 else None,
        rule.retention.time_ms,
        rule.retention.size,
        BLOCK_BYTES if rule.bucket is None else rule.bucket.block_size,
    )
