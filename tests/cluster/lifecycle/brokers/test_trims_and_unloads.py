"""Trims and unloads that a broker is asked for."""

import pytest

from ledgerfs.errors import NotFoundError
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.errors import AdminApiError, UncertainRequestError
from ledgerfs_cluster.lifecycle.brokers.broker_api import BrokerApi
from ledgerfs_cluster.lifecycle.brokers.outcomes import ListReader, trim_and_compare
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from tests.cluster.support.live_broker import LiveBroker, answering, done_and_lost
from tests.cluster.support.live_clusters import TOPIC, LiveCluster

NAME, OTHER = managed_ledger_of(TOPIC), "public/default/persistent/other"


def api(broker: LiveBroker) -> BrokerApi:
    return BrokerApi(AdminRequests(broker.url))


def test_what_a_trim_did_is_reported_from_the_list(live: LiveCluster, broker: LiveBroker, listed: ListReader) -> None:
    live.offload(TOPIC, 150)
    live.offload(TOPIC, 151)
    broker.past_retention, broker.deletes_copies = {150}, True
    sizes = {one.ledger_id: one.size for one in listed(NAME).ledgers}
    (report,) = trim_and_compare(api(broker), NAME, listed, (150, 151))
    assert (report.code, report.ledger_ids, report.size) == ("trimmed", (150, 151), sizes[150] + sizes[151])
    # It was not loaded before.
    assert (broker.loads, broker.unloads) == ([NAME], [NAME])
    broker.load(NAME)
    (report,) = trim_and_compare(api(broker), NAME, listed, (151, 152))
    assert (report.code, report.ledger_ids) == ("not-trimmed", (152,))
    assert (broker.loads, broker.unloads) == ([NAME] * 2, [NAME])


def test_a_topic_that_cannot_be_unloaded_again_is_reported_with_what_was_trimmed(
    broker: LiveBroker, listed: ListReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: BrokerApi, name: str) -> None:
        raise AdminApiError("half of it", key=name)

    broker.past_retention = {150}
    found = api(broker)
    with monkeypatch.context() as patch:
        patch.setattr(BrokerApi, "unload", refused)
        trimmed, loaded = trim_and_compare(found, NAME, listed)
    assert 150 in trimmed.ledger_ids
    assert isinstance(loaded.error, AdminApiError)


def test_a_trim_whose_answer_was_lost_is_sent_again(live: LiveCluster, broker: LiveBroker, listed: ListReader) -> None:
    broker.past_retention = {150}
    broker.load(NAME)
    lose = done_and_lost(broker)
    broker.admin.faults = [lose]
    api(broker).trim(NAME)
    assert 150 not in {one.ledger_id for one in listed(NAME).ledgers}
    assert len(broker.admin.asked) == 2


def test_a_trim_that_is_refused_is_reported(broker: LiveBroker) -> None:
    broker.admin.faults = [answering(500, "BadVersion")]
    with pytest.raises(AdminApiError, match="500: BadVersion"):
        api(broker).trim(NAME)
    with pytest.raises(NotFoundError, match="Topic not found"):
        api(broker).trim("public/default/persistent/nobody")
    assert len(broker.admin.asked) == 2


def test_an_unload_that_may_be_done_is_not_sent_again(broker: LiveBroker) -> None:
    broker.admin.faults = [done_and_lost(broker)]
    with pytest.raises(UncertainRequestError):
        api(broker).unload(NAME)
    assert broker.unloads == [NAME]
