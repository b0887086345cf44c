"""Where brokers listen for clients, as their admin API tells."""

import json

import pytest

from ledgerfs.errors import AdminApiError
from ledgerfs.storage.admin_api.admin_requests import AdminRequests
from ledgerfs.storage.admin_api.service_address import service_address
from tests.support.admin_api import serving

TOLD = {"brokerUrl": "pulsar://a:6650", "brokerUrlTls": "pulsar+ssl://a:6651", "httpUrl": "http://a:8080"}
PATH = "/lookup/v2/topic/persistent/public/default/orders"


@pytest.mark.parametrize(
    ("topic", "path"),
    [
        ("persistent://public/default/orders", PATH),
        ("persistent://public/default/a b+ö?", "/lookup/v2/topic/persistent/public/default/a%20b%2B%C3%B6%3F"),
        ("persistent://public/cluster/default/x", "/lookup/v2/destination/persistent/public/cluster/default/x"),
    ],
)
def test_the_broker_of_a_topic(topic: str, path: str) -> None:
    with serving({path: (200, json.dumps(TOLD))}) as admin:
        requests = AdminRequests(admin.url)
        assert service_address(requests, topic, has_tls=False) == "pulsar://a:6650"
        assert service_address(requests, topic, has_tls=True) == "pulsar+ssl://a:6651"


@pytest.mark.parametrize(
    "told", ["[]", "null", "{}", '{"brokerUrlTls": ""}', '{"brokerUrlTls": 7}', '{"brokerUrlTls": "pulsar://a:6650"}']
)
def test_no_address_is_an_error(told: str) -> None:
    with serving({PATH: (200, told)}) as admin, pytest.raises(AdminApiError, match="tells no address"):
        service_address(AdminRequests(admin.url), "persistent://public/default/orders", has_tls=True)


def test_an_answer_without_tls_is_not_taken_for_one_with_it() -> None:
    with serving({PATH: (200, json.dumps({"brokerUrl": "pulsar+ssl://a:1"}))}) as admin, pytest.raises(AdminApiError):
        service_address(AdminRequests(admin.url), "persistent://public/default/orders", has_tls=False)
