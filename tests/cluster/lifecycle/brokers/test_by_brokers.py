"""What brokers are asked for, and what became of it by the list."""

from dataclasses import replace
from pathlib import Path

import pytest

from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.errors import BrokerOffloadError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, Position
from ledgerfs_cluster.lifecycle.brokers import outcomes
from ledgerfs_cluster.lifecycle.brokers.outcomes import ByBrokers, list_reader
from ledgerfs_cluster.lifecycle.planning.actions import Action, ActionKind
from ledgerfs_cluster.lifecycle.policy.policy_file import Via
from ledgerfs_cluster.offload.outcomes import Outcome, Status
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages

NAME = managed_ledger_of(TOPIC)


@pytest.mark.parametrize("is_forgotten", [True, False], ids=["loaded for it", "failed"])
def test_a_broker_that_forgets_the_last_ledger_as_it_loads_the_topic_is_asked_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_forgotten: bool
) -> None:
    """It was unloaded since: its last ledger has no entries, goes when the topic is loaded, and is no position of it then."""
    with LiveCluster(tmp_path) as cluster:
        first, empty = cluster.write_ledgers(TOPIC, [messages(5), ()])
        living = ClusterFileSystem().cluster(cluster.url.removeprefix("pulsar+zk://"))
        asked: list[int] = []

        def ask(_: object, __: str, up_to: Position, *___: object) -> Outcome:
            asked.append(up_to.ledger_id)
            if up_to.ledger_id == empty:
                if is_forgotten:
                    cluster.change_list(
                        TOPIC, lambda info: replace(info, ledgers=(info.ledgers[0], LedgerInfo(900, 0, 0, 0)))
                    )
                raise BrokerOffloadError("Invalid position for offload", key=TOPIC)
            return Outcome(Status.OK, "offloaded", NAME)

        monkeypatch.setattr(outcomes, "offload_and_compare", ask)
        asking = ByBrokers(object(), list_reader(living.nodes), lambda: None)  # type: ignore[arg-type]
        action = Action(ActionKind.OFFLOAD, NAME, (first,), 0, Via.BROKER, None, "a test")
        try:
            if is_forgotten:
                asking.carry_out(action)
                assert asked == [empty, 900]
            else:
                with pytest.raises(BrokerOffloadError):
                    asking.carry_out(action)
                assert asked == [empty]
        finally:
            living.nodes.close()


def test_a_trim_that_waited_is_not_asked_for_once_the_policy_was_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(_: object, name: str, *__: object) -> list[Outcome]:
        asked.append(name)
        return [Outcome(Status.OK, "trimmed", name)]

    monkeypatch.setattr(outcomes, "trim_and_compare", ask)
    reasons: list[str | None] = ["policy.toml was edited", None]
    asking = ByBrokers(object(), lambda _: None, lambda: reasons.pop(0))  # type: ignore[arg-type,return-value]
    action = Action(ActionKind.TRIM, NAME, (1,), 0, Via.BROKER, None, "a test")
    assert asking.carry_out(action) == []
    assert asked == []
    assert [one.code for one in asking.carry_out(action)] == ["trimmed"]
