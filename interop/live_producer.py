"""Producers that go on while a cluster is read, and know what was acknowledged; subscriptions that go on, too."""

import contextlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pulsar

_RECEIVE_MS = 100


@dataclass
class LiveProducer:
    """Sends to one topic, one message an entry, each with its number; nothing is sent twice, whatever happens to bookies."""

    topic: str
    size: int
    producer: Any
    sent: int = 0
    failures: list[Any] = field(default_factory=list)
    _acknowledged: int = 0
    _sending: threading.Lock = field(default_factory=threading.Lock)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def send(self, messages: int) -> None:
        """Send some more; what another thread sends meanwhile comes before or after all of them."""
        with self._sending:
            for number in range(self.sent, self.sent + messages):
                value = b"%08d" % number + b"." * self.size
                self.producer.send_async(value, self._answered, partition_key=f"k{number % 7}")
            self.sent += messages

    @property
    def acknowledged(self) -> int:
        """How many messages are acknowledged, in the order of sending."""
        return self._acknowledged

    def wait(self, acknowledged: int, seconds: float = 60) -> None:
        """Wait for so many to be acknowledged."""
        with self._changed:
            done = self._changed.wait_for(lambda: self._acknowledged >= acknowledged or self.failures, seconds)
        if not done or self.failures:
            what = f"{self._acknowledged} of {self.sent} acknowledged, {acknowledged} wanted, {self.failures[:1]}"
            raise RuntimeError(f"{self.topic}: {what}")

    def _answered(self, result: Any, _message_id: Any) -> None:
        with self._changed:
            if result == pulsar.Result.Ok:
                self._acknowledged += 1
            else:
                self.failures.append(result)
            self._changed.notify_all()


class Sender(Protocol):
    """What sends numbered messages to one topic."""

    @property
    def sent(self) -> int:
        """How many were sent."""

    def send(self, messages: int) -> None:
        """Send some more."""

    def wait(self, acknowledged: int) -> None:
        """Wait for so many to be acknowledged."""


@contextmanager
def connected(service_url: str) -> Iterator[pulsar.Client]:
    """Lend a client."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        yield client
    finally:
        client.close()


def produce_to(client: pulsar.Client, topic: str, size: int) -> LiveProducer:
    """Connect a producer, which sends nothing yet; it never gives up what it could not store."""
    options = {"batching_enabled": False, "block_if_queue_full": True, "send_timeout_millis": 0}
    return LiveProducer(topic, size, client.create_producer(topic, **options))


@contextmanager
def going_on(producer: Sender, messages: int, pause_s: float) -> Iterator[None]:
    """Have a producer send so many messages at each turn until the end, and wait then until all are acknowledged."""
    ending = threading.Event()

    def run() -> None:
        while not ending.is_set():
            producer.send(messages)
            time.sleep(pause_s)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
    producer.wait(producer.sent)


@contextmanager
def acknowledging(client: pulsar.Client, topic: str, name: str) -> Iterator[None]:
    """Have a subscription acknowledge each message as it comes, until the end."""
    consumer = client.subscribe(topic, name, initial_position=pulsar.InitialPosition.Earliest)
    ending = threading.Event()
    failures: list[Exception] = []

    def run() -> None:
        try:
            while not ending.is_set():
                with contextlib.suppress(pulsar.Timeout):
                    consumer.acknowledge(consumer.receive(_RECEIVE_MS))
        except Exception as error:  # noqa: BLE001 (whoever ends it raises it)
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
        consumer.close()
    if failures:
        raise failures[0]
