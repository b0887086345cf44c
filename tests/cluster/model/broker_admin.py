"""The admin API of the broker of a model, as a lifecycle service asks it: it loads what it is asked about."""

import json
from typing import TYPE_CHECKING

from ledgerfs.formats.topic_names import topic_of
from ledgerfs_cluster.pulsar_admin.admin_requests import Answer
from tests.cluster.model import lifecycle_acts as acts
from tests.cluster.model.shared_cluster import FencedError, namespace_of

if TYPE_CHECKING:
    from tests.cluster.model.lifecycle_world import LifecycleWorld

_MOST_TRIES = 5


class BrokerAdmin:
    """`ledgerfs_cluster.pulsar_admin.admin_requests.AdminRequests` of a model."""

    address = "http://model"

    def __init__(self, world: "LifecycleWorld") -> None:
        self._world = world

    def get(self, path: str) -> Answer:
        """Return how an offload goes: of one that was done by a request it is not known any more."""
        with self._world.loaded(self._topic(path)):
            pass
        return self._answer(path, {"status": "NOT_RUN", "lastError": ""})

    def change(self, method: str, path: str, value: object = None, *, is_repeatable: bool) -> Answer:
        """Trim, offload, or unload a topic."""
        world, topic = self._world, self._topic(path)
        match path.rpartition("/")[2]:
            case "unload":
                # With its bundle, as where the load manager lets go of it, too.
                world.broker.unload(namespace_of(topic))
            case "trim":
                self._until_done(topic, acts.trim(topic, crashes=False))
                self._until_done(topic, acts.delete_copies(topic, crashes=False))
            case "offload":
                before = value["ledgerId"] if isinstance(value, dict) else 0
                for one in world.cluster.list_of(topic).ledgers:
                    if one.ledger_id < before and not one.is_offloaded and one.entries:
                        acts.begin_offload(topic)(world)
                        acts.end_offload(topic)(world)
        return self._answer(path, None)

    def _until_done(self, topic: str, act: acts.LifecycleAct) -> None:
        """Act once the broker has the topic as its list is: one that knows an older list loads it again first."""
        for _ in range(_MOST_TRIES):
            loads = self._world.broker.loads[topic]
            act(self._world)
            if self._world.broker.loads[topic] == loads:
                return
        raise FencedError(topic)

    def _topic(self, path: str) -> str:
        names = path.partition("/persistent/")[2].rpartition("/")[0]
        return topic_of(names.rpartition("/")[0] + "/persistent/" + names.rpartition("/")[2]).removeprefix(
            "persistent://"
        )

    def _answer(self, path: str, value: object) -> Answer:
        body = b"" if value is None else json.dumps(value).encode()
        return Answer(self.address, path, 204 if value is None else 200, body)
