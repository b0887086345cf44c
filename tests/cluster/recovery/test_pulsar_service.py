"""How `pulsar-client` is asked: its address, and its errors by our names. `interop/test_broker_reading.py` has the package itself."""

import sys
from unittest.mock import MagicMock

import pytest

from ledgerfs.errors import (
    AccessDeniedError,
    AuthenticationError,
    InvalidNameError,
    InvalidOptionError,
    LedgerfsError,
    NotFoundError,
    StoreUnreachableError,
)
from ledgerfs_cluster.errors import BrokerRefusalError
from ledgerfs_cluster.recovery.checking.pulsar_service import PulsarService
from tests.support.each import for_each

TOPIC = "persistent://public/default/orders"


class PulsarException(Exception):  # noqa: N818  (the package's name)
    pass


@for_each(
    "url", ["", "host:6650", "http://host:8080", "pulsar://", "pulsar://me@host", "pulsar://a b", "pulsar://host/x"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidOptionError, match="pulsar://host:6650"):
        PulsarService(url)


def test_without_the_package_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pulsar", None)
    with pytest.raises(InvalidOptionError, match=r"pip install '.\[pulsar\]'"):
        PulsarService("pulsar://host:6650")


@for_each(
    ("name", "ours"),
    [("AuthenticationError", AuthenticationError), ("AuthorizationError", AccessDeniedError), ("TopicNotFound", NotFoundError),
     ("InvalidTopicName", InvalidNameError), ("ConnectError", StoreUnreachableError), ("Timeout", StoreUnreachableError),
     ("NotAllowedError", BrokerRefusalError)],
)  # fmt: skip
def test_errors_have_our_names(name: str, ours: type[LedgerfsError], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise type(name, (PulsarException,), {})("why")

    package = MagicMock()
    package.exceptions.PulsarException = PulsarException
    package.Client.return_value.create_reader = refuse
    monkeypatch.setitem(sys.modules, "pulsar", package)
    with pytest.raises(ours, match="why"), PulsarService("pulsar://host").reading(TOPIC):
        pass
