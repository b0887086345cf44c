"""Topics with offload thresholds of all kinds: what a broker offloads of them at a rollover is compared with what we choose."""

import time
from dataclasses import dataclass

import pulsar

from interop import machine
from interop.filling import fill, for_each
from interop.live_cluster import LiveCluster
from interop.s3_server import BUCKET

_SIZE = 1000
_FIRST = 350
"""Messages that are sent when the run begins: three ledgers, and half of one."""
_LATER = 101
"""A ledger that is full, and the next one, with which the broker looks at thresholds."""


@dataclass(frozen=True)
class Behind:
    """A topic.

    Attributes
    ----------
    policy
        What its namespace is called by.
    size
        Bytes; -1 for none.
    is_timed
        Whether its namespace also has a threshold by time, which the first ledgers are behind, and the last ones are not.
    offloaded
        How many of its ledgers are offloaded before.

    """

    policy: str
    size: int
    is_timed: bool
    offloaded: int

    @property
    def namespace(self) -> str:
        """The namespace of this policy."""
        return f"public/behind-{self.policy}"

    @property
    def topic(self) -> str:
        """The topic's name."""
        return f"persistent://{self.namespace}/offloaded-{self.offloaded}"


_POLICIES = {
    "off": (-1, False),
    "zero": (0, False),
    "one-ledger": (150_000, False),
    "three-ledgers": (300_000, False),
    "large": (10_000_000, False),
    "time": (-1, True),
    "both": (300_000, True),
    "large-or-time": (10_000_000, True),
}
TOPICS = tuple(
    Behind(name, size, is_timed, offloaded) for name, (size, is_timed) in _POLICIES.items() for offloaded in (0, 2)
)


def make_topics(live: LiveCluster, client: pulsar.Client) -> None:
    """Send what is sent first, with no thresholds."""
    for name in dict.fromkeys(one.namespace for one in TOPICS):
        live.cluster.admin.make_namespace(name)

    def make(one: Behind) -> None:
        fill(client, one.topic, _FIRST, _SIZE)
        if one.offloaded:
            live.cluster.admin.offload(one.topic, one.offloaded)

    for_each(TOPICS, make)


def set_thresholds(live: LiveCluster, closed_ms: int) -> None:
    """Unload all, and set thresholds; by time, what was closed up to ``closed_ms`` is behind them."""
    admin = live.cluster.admin
    for_each(TOPICS, lambda one: admin.unload(one.topic))
    seconds = int(time.time() - closed_ms / 1000)
    for one in {one.namespace: one for one in TOPICS}.values():
        # All of it: what is left out would be a default, and not what the broker is configured with.
        admin.call(
            "POST",
            f"v2/namespaces/{one.namespace}/offloadPolicies",
            {
                "managedLedgerOffloadDriver": "aws-s3",
                "s3ManagedLedgerOffloadBucket": BUCKET,
                "s3ManagedLedgerOffloadRegion": "us-east-1",
                "s3ManagedLedgerOffloadServiceEndpoint": live.s3.endpoint,
                "s3ManagedLedgerOffloadMaxBlockSizeInBytes": 5 << 20,
                "s3ManagedLedgerOffloadReadBufferSizeInBytes": 1 << 20,
                "offloadersDirectory": str(machine.pulsar_folder() / "offloaders"),
                "managedLedgerOffloadThresholdInBytes": one.size,
                "managedLedgerOffloadThresholdInSeconds": seconds if one.is_timed else -1,
                "managedLedgerOffloadDeletionLagInMillis": 4 * 3_600_000,
            },
        )


def roll_over(client: pulsar.Client) -> None:
    """Have the broker load all topics, fill a ledger, and begin the next."""
    for_each(TOPICS, lambda one: fill(client, one.topic, _LATER, _SIZE))
