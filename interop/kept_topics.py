"""Topics whose retention ends in all ways, with subscriptions everywhere: what a broker trims of them is compared with what we say."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pulsar

from interop.filling import fill, for_each, subscribe
from interop.live_cluster import LiveCluster

_SIZE = 5000
"""Bytes of a message: five ledgers have more than two MiB."""
_MOVES_S = 10
"""Within which a subscription moves to what is expired."""


@dataclass(frozen=True)
class Kept:
    """A topic.

    Attributes
    ----------
    policy
        Which of `POLICIES` its namespace has.
    messages, later
        How many are sent when the run begins, and how many right before topics are compared, which must not fill their last ledger: what is
        unloaded while its next ledger is made may leave that one open, as if it were loaded.
    acknowledged
        {subscription: numbers of the messages that it has acknowledged, all of them sent when the run begins}.
    offloaded
        How many of its ledgers are offloaded.
    ttl
        Whether the topic itself has the time to live that namespaces of ``ttl`` have.
    is_killed
        Whether the broker that had it loaded was killed; else it is unloaded.

    """

    policy: str
    name: str
    acknowledged: Mapping[str, Iterable[int]] = field(default_factory=dict)
    messages: int = 450
    later: int = 0
    offloaded: int = 0
    ttl: bool = False
    is_killed: bool = False

    @property
    def namespace(self) -> str:
        """The namespace, of which each policy has one for topics of either end."""
        return f"public/kept-{self.policy}{'-killed' * self.is_killed}"

    @property
    def expires(self) -> bool:
        """Whether its messages have a time to live."""
        return self.ttl or self.policy in TTLS

    @property
    def topic(self) -> str:
        """The topic's name."""
        return f"persistent://{self.namespace}/{self.name}"


POLICIES = {
    "nothing": (0, 0),
    "size": (-1, 1),
    "time": (1, -1),
    "both": (1, 1),
    "for-ever": (-1, -1),
    "default": None,
    "ttl": (0, 0),
    "ttl-of-topics": (0, 0),
}
"""Minutes and MB; None for what the broker is configured to keep, which is all."""

TTL_S = 45
"""A time to live: between what is sent when the run begins and what is sent right before topics are compared."""

TTLS = {"ttl": TTL_S}
"""By policies of namespaces; others have none."""

OLD_S = 61
"""After which what was sent first is past a retention by time."""

_HOLES = (*range(120), *range(125, 250))

TOPICS = (
    Kept("nothing", "free"),
    Kept("nothing", "all", {"s": range(450)}),
    Kept("nothing", "inside", {"s": range(230)}),
    Kept("nothing", "ledger-end", {"s": range(200)}),
    Kept("nothing", "unread", {"s": ()}),
    Kept("nothing", "two", {"s": range(340), "t": range(130)}),
    Kept("nothing", "holes", {"s": _HOLES}),
    Kept("nothing", "offloaded", {"s": range(330)}, offloaded=3),
    Kept("nothing", "full-ledgers", {"s": range(400)}, messages=400),
    Kept("nothing", "empty", messages=0),
    Kept("nothing", "free", is_killed=True),
    Kept("nothing", "inside", {"s": range(230)}, is_killed=True),
    Kept("nothing", "holes", {"s": _HOLES}, is_killed=True),
    Kept("size", "free"),
    Kept("size", "inside", {"s": range(130)}),
    Kept("size", "two", {"s": range(450), "t": range(200)}),
    Kept("size", "offloaded", offloaded=2),
    Kept("size", "small", messages=130),
    Kept("size", "free", is_killed=True),
    Kept("time", "old"),
    Kept("time", "young", messages=0, later=450),
    Kept("time", "old-and-young", {"s": range(230)}, messages=250, later=180),
    Kept("time", "offloaded", messages=250, later=180, offloaded=2),
    Kept("both", "old-and-young", messages=250, later=180),
    Kept("both", "ledger-end", {"s": range(100)}, messages=250, later=180),
    Kept("for-ever", "free"),
    Kept("default", "free"),
    Kept("ttl", "unread", {"s": ()}, messages=250, later=180),
    Kept("ttl", "inside", {"s": range(130)}, messages=250, later=180),
    Kept("ttl", "two", {"s": (), "t": range(250)}, messages=250, later=180),
    Kept("ttl", "holes", {"s": (*range(20), *range(240, 250))}, messages=250, later=180),
    Kept("ttl", "old", {"s": ()}),
    Kept("ttl", "young", {"s": ()}, messages=0, later=330),
    Kept("ttl-of-topics", "unread", {"s": ()}, messages=250, later=180, ttl=True),
    Kept("ttl-of-topics", "without", {"s": ()}, messages=250, later=180),
)


def make_topics(live: LiveCluster, client: pulsar.Client) -> None:
    """Send what is sent first, of all topics that no killed broker is to have."""
    for name in dict.fromkeys(one.namespace for one in TOPICS):
        live.cluster.admin.make_namespace(name)
    for_each([one for one in TOPICS if not one.is_killed], lambda one: _make(live, client, one))


def make_topics_of_a_killed_broker(live: LiveCluster, client: pulsar.Client) -> None:
    """Make the others, which stay loaded."""
    killed = [one for one in TOPICS if one.is_killed]
    for_each(killed, lambda one: _make(live, client, one))
    _set_policies(live, killed)


def finish_topics(live: LiveCluster, client: pulsar.Client) -> None:
    """Send what is sent later, unload, and let retention begin."""
    unloaded = [one for one in TOPICS if not one.is_killed]

    def finish(one: Kept) -> None:
        if one.later:
            fill(client, one.topic, one.later, _SIZE)
        live.cluster.admin.unload(one.topic)
        if one.ttl:
            # Brokers expire at once what they have loaded.
            live.cluster.admin.set_ttl_of_topic(one.topic, TTL_S)

    for_each(unloaded, finish)
    _set_policies(live, unloaded)


def expire(live: LiveCluster, one: Kept, positions: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Have the broker load a topic and expire its messages; return where its subscriptions are, once they are there or beyond."""
    if one.expires:
        live.cluster.admin.expire(one.topic, TTL_S)
    end = time.monotonic() + _MOVES_S
    while True:
        found = live.cluster.admin.positions(one.topic)
        if all(found.get(name, (-1, -1)) >= at for name, at in positions.items()) or time.monotonic() > end:
            return found
        time.sleep(0.1)


def trim(live: LiveCluster, one: Kept) -> None:
    """Have the broker load a topic and trim it."""
    live.cluster.admin.trim(one.topic)


def _make(live: LiveCluster, client: pulsar.Client, one: Kept) -> None:
    fill(client, one.topic, one.messages, _SIZE)
    for name, acknowledged in one.acknowledged.items():
        subscribe(client, one.topic, name, acknowledged)
    if one.offloaded:
        live.cluster.admin.offload(one.topic, one.offloaded)


def _set_policies(live: LiveCluster, topics: Sequence[Kept]) -> None:
    for policy, namespace in {(one.policy, one.namespace) for one in topics}:
        reported = POLICIES[policy]
        if reported is not None:
            live.cluster.admin.set_retention(namespace, *reported)
        if policy in TTLS:
            live.cluster.admin.set_ttl(namespace, TTLS[policy])
