"""What brokers are asked for, and what became of it by the list."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.errors import BrokerOffloadError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, Position
from ledgerfs_cluster.lifecycle.acting import by_brokers
from ledgerfs_cluster.lifecycle.acting.by_brokers import ByBrokers
from ledgerfs_cluster.lifecycle.brokers.outcomes import list_reader
from ledgerfs_cluster.lifecycle.planning.actions import Action, ActionKind
from ledgerfs_cluster.lifecycle.policy.policy_file import Via, parse_policy_file
from ledgerfs_cluster.lifecycle.policy.topic_rules import TopicRules, url_of
from ledgerfs_cluster.offload.outcomes import Outcome, Status
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages
from tests.cluster.support.made_surveys import MadeCluster
from tests.cluster.support.outcomes import remarks

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

        monkeypatch.setattr(by_brokers, "offload_and_compare", ask)
        asking = ByBrokers(object(), list_reader(living.nodes), lambda _: None, lambda: None)  # type: ignore[arg-type]
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


BUCKET = """
[buckets.tier]
url = "s3://tier"
endpoint = "http://store:9000"
region = "eu-west-1"
"""
ALIAS = """
[buckets.alias]
url = "s3://tier"
endpoint = "http://store:9000"
region = "eu-west-1"
"""


@pytest.mark.parametrize(
    ("noted", "differing"),
    [
        ({}, None),
        ({"endpoint": "http://other:9000"}, "endpoint http://other:9000 instead of http://store:9000"),
        ({"endpoint": ""}, "endpoint none instead of http://store:9000"),
        (
            {"bucket": "vault", "region": "us-east-1"},
            "bucket vault instead of tier, region us-east-1 instead of eu-west-1",
        ),
        ({"driver": "google-cloud-storage"}, "driver google-cloud-storage instead of aws-s3"),
    ],
)
@pytest.mark.parametrize("is_twice", [True, False])
def test_a_broker_that_offloads_elsewhere_is_reported_with_all_that_differs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    noted: dict[str, str],
    differing: str | None,
    is_twice: bool,
) -> None:
    """The place of the file is no other one because the file names it twice."""
    text = BUCKET + ALIAS * is_twice + "[[topics]]\nmatch = '.*'\nbucket = 'tier'"
    file = parse_policy_file(text.encode(), Path("policy.toml"))
    with LiveCluster(tmp_path) as cluster:
        first, _ = cluster.write_ledgers(TOPIC, [messages(5), messages(1)])
        living = ClusterFileSystem().cluster(cluster.url.removeprefix("pulsar+zk://"))

        def ask(*_: object) -> Outcome:
            cluster.offload(TOPIC, first, **{"endpoint": "http://store:9000", "region": "eu-west-1", **noted})  # type: ignore[arg-type]
            return Outcome(Status.OK, "offloaded", NAME, ledger_ids=(first,))

        monkeypatch.setattr(by_brokers, "offload_and_compare", ask)
        asking = ByBrokers(object(), list_reader(living.nodes), partial(url_of, file), lambda: None)  # type: ignore[arg-type]
        rule = TopicRules(file, MadeCluster().survey()).of(NAME)
        try:
            done = asking.carry_out(Action(ActionKind.OFFLOAD, NAME, (first,), 0, Via.BROKER, None, "a test", rule))
        finally:
            living.nodes.close()
    place = (
        f"the broker of {NAME} has offloaded by its own settings to another place than bucket tier of the policy file: "
    )
    assert remarks(done) == ([] if differing is None else [place + differing])


def test_a_trim_that_waited_is_not_asked_for_once_the_policy_was_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(_: object, name: str, *__: object) -> list[Outcome]:
        asked.append(name)
        return [Outcome(Status.OK, "trimmed", name)]

    monkeypatch.setattr(by_brokers, "trim_and_compare", ask)
    reasons: list[str | None] = ["policy.toml was edited", None]
    asking = ByBrokers(object(), lambda _: None, lambda _: None, lambda: reasons.pop(0))  # type: ignore[arg-type,return-value]
    action = Action(ActionKind.TRIM, NAME, (1,), 0, Via.BROKER, None, "a test")
    assert asking.carry_out(action) == []
    assert asked == []
    assert [one.code for one in asking.carry_out(action)] == ["trimmed"]
