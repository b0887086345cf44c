"""How `pulsar-client` is asked: its client's options, where readers begin, and its errors by our names. The package is a fake."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

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


class Package(ModuleType):
    """What `PulsarService` knows of the package; ``calls`` are those of its client and readers."""

    def __init__(self) -> None:
        super().__init__("pulsar")
        self.calls: list[tuple[Any, ...]] = []
        self.answer: Callable[[str], Any] = lambda _: None
        self.Timeout = type("Timeout", (PulsarException,), {})
        self.exceptions = SimpleNamespace(PulsarException=PulsarException)
        self.MessageId = SimpleNamespace(earliest="earliest")
        self.ConsumerCryptoFailureAction = SimpleNamespace(CONSUME="consume")
        self.LoggerLevel = SimpleNamespace(Error="error")
        self.FileLogger = lambda level, path: (level, path)
        self.AuthenticationToken = lambda token: ("token", token)
        self.AuthenticationTLS = lambda certificate, key: ("tls", certificate, key)

    def Client(self, *arguments: Any, **options: Any) -> Any:  # noqa: N802
        self.calls.append(("client", arguments, options))
        return SimpleNamespace(
            create_reader=self._reader, create_producer=self._producer, close=lambda: self.calls.append(("closed",))
        )

    def _producer(self, topic: str, **options: Any) -> Any:
        self.calls.append(("producer", topic, options))
        return SimpleNamespace(
            send=lambda data, **more: self.calls.append((self.answer("send"), data, more)),
            close=lambda: self.calls.append(("producer closed",)),
        )

    def _reader(self, topic: str, start: Any, **options: Any) -> Any:
        self.calls.append(("reader", topic, start, options))
        self.answer("reader")
        return SimpleNamespace(
            read_next=lambda wait_ms: self.answer("next") or wait_ms,
            has_message_available=lambda: self.answer("end"),
            close=lambda: self.calls.append(("reader closed",)),
        )


@pytest.fixture(name="package")
def _package(monkeypatch: pytest.MonkeyPatch) -> Package:
    made = Package()
    monkeypatch.setitem(sys.modules, "pulsar", made)
    return made


def raising(error: Exception) -> Callable[[str], Any]:
    def answer(_: str) -> Any:
        raise error

    return answer


@for_each(
    "url", ["", "host:6650", "http://host:8080", "pulsar://", "pulsar://me@host", "pulsar://a b", "pulsar://host/x"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidOptionError, match="pulsar://host:6650"):
        PulsarService(url)


def test_without_the_package_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pulsar", None)
    with pytest.raises(InvalidOptionError, match=r"pip install 'ledgerfs\[pulsar\]'"):
        PulsarService("pulsar://host:6650")


def test_nothing_is_connected_before_a_topic_is_read(package: Package) -> None:
    service = PulsarService("pulsar://a:6650,b:6650", "secret")
    service.close()
    assert package.calls == []
    with service.reading(TOPIC):
        pass
    with service.reading(TOPIC) as reading:
        assert reading.next(1.5) == 1500
        assert reading.is_at_end()
    service.close()
    names = [one[0] for one in package.calls]
    assert names == ["client", "reader", "reader closed", "reader", "reader closed", "closed"]
    _, arguments, options = package.calls[0]
    assert arguments == ("pulsar://a:6650,b:6650", ("token", "secret"))
    assert options["tls_validate_hostname"]
    assert [one[2] for one in package.calls if one[0] == "reader"] == ["earliest", "earliest"]


def test_certificates_tell_who_asks_and_whom_to_trust(package: Package) -> None:
    files = Path("/ca"), Path("/mine"), Path("/key")
    for token, authentication in ((None, ("tls", "/mine", "/key")), ("secret", ("token", "secret"))):
        with PulsarService("pulsar+ssl://host:6651", token, *files).reading(TOPIC):
            pass
        _, arguments, options = next(one for one in reversed(package.calls) if one[0] == "client")
        assert arguments[1] == authentication
        told = (
            options["tls_trust_certs_file_path"],
            options["tls_certificate_file_path"],
            options["tls_private_key_file_path"],
        )
        assert told == ("/ca", "/mine", "/key")


def test_nothing_for_some_time_is_no_error(package: Package) -> None:
    package.answer = lambda what: (_ for _ in ()).throw(package.Timeout()) if what == "next" else True
    with PulsarService("pulsar://host").reading(TOPIC) as reading:
        assert reading.next(1) is None
        assert not reading.is_at_end()


@for_each(
    ("name", "ours"),
    [("AuthenticationError", AuthenticationError), ("AuthorizationError", AccessDeniedError), ("TopicNotFound", NotFoundError),
     ("InvalidTopicName", InvalidNameError), ("ConnectError", StoreUnreachableError), ("Timeout", StoreUnreachableError),
     ("NotAllowedError", BrokerRefusalError)],
)  # fmt: skip
def test_errors_have_our_names(name: str, ours: type[LedgerfsError], monkeypatch: pytest.MonkeyPatch) -> None:
    package = Package()
    monkeypatch.setitem(sys.modules, "pulsar", package)
    package.answer = raising(type(name, (PulsarException,), {})("why"))
    with pytest.raises(ours, match="why"), PulsarService("pulsar://host").reading(TOPIC):
        pass
