"""Brokers, read with the package ``pulsar-client``: an optional extra, imported on first use."""

import json
import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ledgerfs.display import printable
from ledgerfs.errors import (
    AccessDeniedError,
    AuthenticationError,
    InvalidNameError,
    InvalidOptionError,
    LedgerfsError,
    NotFoundError,
    ObjectNotFoundError,
    StoreUnreachableError,
)
from ledgerfs_cluster.errors import BrokerRefusalError
from ledgerfs_cluster.snapshot.cluster_names import CLUSTERS, only_cluster
from ledgerfs_cluster.zookeeper.nodes import NodeReader

_SERVICE = re.compile(r"pulsar(\+ssl)?://[^\s@/?#]+/?", re.ASCII)
_EXPECTED = "expected the address of brokers for clients: pulsar://host:6650 or pulsar+ssl://host:6651"
_MISSING = "the cluster's metadata does not contain the address of its brokers; pass --service pulsar://host:6650"
_AHEAD = 100
"""Messages that the client prefetches: each may have some MiB."""

_BY_NAME: dict[str, tuple[type[LedgerfsError], str]] = {
    "AuthenticationError": (AuthenticationError, "the broker requires a valid login (--token-file)"),
    "AuthorizationError": (AccessDeniedError, "the broker refused access"),
    "TopicNotFound": (NotFoundError, "the broker has no such topic"),
    "InvalidTopicName": (InvalidNameError, "the broker does not accept this name"),
    **dict.fromkeys(
        ("Timeout", "ConnectError", "NotConnected", "ReadError", "LookupError", "ServiceUnitNotReady", "AlreadyClosed"),
        (StoreUnreachableError, "no broker answers"),
    ),
}


def service_address(nodes: NodeReader, *, has_tls: bool) -> str:
    """Return the brokers' URL, with TLS if wanted or if there is no other; raises `InvalidOptionError` without any."""
    name = only_cluster(nodes)
    try:
        reported = json.loads(nodes.get(f"{CLUSTERS}/{name}").data) if name is not None else None
    except (ObjectNotFoundError, ValueError, RecursionError):
        reported = None
    names = ["brokerServiceUrlTls"] if has_tls else ["brokerServiceUrl", "brokerServiceUrlTls"]
    url = next((reported[name] for name in names if reported.get(name)), None) if isinstance(reported, dict) else None
    if not isinstance(url, str) or not url:
        raise InvalidOptionError(_MISSING, key="--service")
    return url


class PulsarService:
    """Brokers, or a proxy before them; connects on first use, until it is closed.

    Parameters
    ----------
    url
        ``pulsar://host:6650,host:6650`` or ``pulsar+ssl://…``.
    token
        Token of the client; None to use the certificate, or no authentication.
    ca, certificate, key
        PEM files: the CA of the brokers' certificates, and the certificate and key of this client.

    Raises `InvalidOptionError` for an invalid address, and if ``pulsar-client`` is not installed.

    """

    silence_s = 3.0
    """Seconds without a message that count as a pause; after three pauses the reading is over."""
    patience_s = 45.0
    """Seconds to wait if messages are still expected: a broker may read them from a slow store, and retries after 15 s."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        ca: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        if not _SERVICE.fullmatch(url.strip()):
            raise InvalidOptionError(_EXPECTED, key=printable(url))
        self._url = url.strip()
        self._token, self._ca, self._certificate, self._key = token, ca, certificate, key
        self._pulsar = _package()
        self._client: Any = None

    @contextmanager
    def reading(self, topic: str) -> Iterator["TopicReading"]:
        """Return a reader of all messages of a topic.

        It and its methods raise `StoreUnreachableError`, `AuthenticationError`, `AccessDeniedError`, `NotFoundError`, `InvalidNameError`,
        and `BrokerRefusalError` for any other refusal.
        """
        with _our_errors(self._pulsar, topic):
            reader = self._connected().create_reader(
                topic,
                self._pulsar.MessageId.earliest,
                receiver_queue_size=_AHEAD,
                start_message_id_inclusive=True,
                crypto_failure_action=self._pulsar.ConsumerCryptoFailureAction.CONSUME,
            )
        try:
            yield TopicReading(self._pulsar, reader, topic)
        finally:
            with _our_errors(self._pulsar, topic):
                reader.close()

    def publish(self, topic: str, key: str, data: bytes) -> None:
        """Send one message; raises the errors of `reading`."""
        with _our_errors(self._pulsar, topic):
            producer = self._connected().create_producer(topic, batching_enabled=False)
            try:
                producer.send(data, partition_key=key)
            finally:
                producer.close()

    def close(self) -> None:
        """Disconnect."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connected(self) -> Any:  # noqa: ANN401  (the package has no types)
        if self._client is not None:
            return self._client
        pulsar = self._pulsar
        authentication, own = None, dict[str, str]()
        if self._certificate is not None:
            certificate, key = str(self._certificate), str(self._key or self._certificate)
            own = {"tls_certificate_file_path": certificate, "tls_private_key_file_path": key}
            authentication = pulsar.AuthenticationTLS(certificate, key)
        if self._token is not None:
            authentication = pulsar.AuthenticationToken(self._token)
        trusted = ssl.get_default_verify_paths().cafile if self._ca is None else str(self._ca)
        self._client = pulsar.Client(
            self._url,
            authentication,
            tls_trust_certs_file_path=trusted,
            tls_validate_hostname=True,
            # The client would write its log to standard output.
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
            **own,
        )
        return self._client


@dataclass(frozen=True, slots=True)
class TopicReading:
    """One reader of a topic, for one thread."""

    pulsar: ModuleType
    reader: Any
    topic: str

    def next(self, wait_s: float) -> Any:  # noqa: ANN401
        """Return the next message in the brokers' order; None if none arrives within ``wait_s`` seconds."""
        with _our_errors(self.pulsar, self.topic):
            try:
                return self.reader.read_next(round(wait_s * 1000))
            except self.pulsar.Timeout:
                return None

    def is_at_end(self) -> bool:
        """Return whether brokers report no message after the last one received."""
        with _our_errors(self.pulsar, self.topic):
            return not self.reader.has_message_available()


def _package() -> ModuleType:
    try:
        import pulsar
    except ImportError as error:
        reason = "the Python package pulsar-client is missing: pip install '.[pulsar]' in a clone"
        raise InvalidOptionError(reason, key="pulsar-client") from error
    module: ModuleType = pulsar
    return module


@contextmanager
def _our_errors(pulsar: ModuleType, topic: str) -> Iterator[None]:
    """Translate the client's errors into those of ledgerfs."""
    try:
        yield
    except pulsar.exceptions.PulsarException as error:
        kind, reason = _BY_NAME.get(type(error).__name__, (BrokerRefusalError, "the broker refused the request"))
        raise kind(f"{reason}: {printable(str(error))}", key=topic) from error
