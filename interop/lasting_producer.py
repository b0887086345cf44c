"""A producer that goes on for as long as something acknowledges: the client's own gives up a topic at times, without a word.

Pulsar's C++ client has been seen to stay away from a topic that its broker served, after that broker was killed or stopped. So what is not
acknowledged for a minute is sent again by a new connection, under the same name and with the same sequence ids: brokers that deduplicate
store each message once.
"""

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pulsar

_MOST_PENDING = 500
"""Fewer than the client's queue takes, which would hold the thread that sends for ever."""
_STALLED_S = 60.0
_GIVEN_UP_S = 300.0
_PAUSE_S = 0.05


@dataclass
class LastingProducer:
    """Sends to one topic, one message an entry, each with its number; for one thread at a time.

    Attributes
    ----------
    sent, acknowledged
        How many messages were sent, and how many of these were acknowledged, in the order of sending.
    renewed
        How often the connection was given up for a new one.

    """

    service_url: str
    topic: str
    size: int
    sent: int = 0
    acknowledged: int = 0
    renewed: int = 0
    _client: Any = None
    _producer: Any = None
    _failures: list[Any] = field(default_factory=list)
    _moved: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._connect()

    def send(self, messages: int) -> None:
        """Send some more, once few enough are pending; raises as `wait`."""
        self.wait(self.sent - _MOST_PENDING)
        if self.acknowledged == self.sent:
            self._moved = time.monotonic()
        for number in range(self.sent, self.sent + messages):
            self._send(number)
        self.sent += messages

    def wait(self, acknowledged: int, seconds: float = _GIVEN_UP_S) -> None:
        """Wait for so many to be acknowledged; raises `RuntimeError` if they are not in time, or are refused."""
        until = time.monotonic() + seconds
        while self.acknowledged < acknowledged:
            if self._failures or time.monotonic() > until:
                what = f"{self.acknowledged} of {self.sent} acknowledged, {acknowledged} wanted, {self._failures[:1]}"
                raise RuntimeError(f"{self.topic}: {what}")
            if time.monotonic() > self._moved + _STALLED_S:
                self.renew()
            time.sleep(_PAUSE_S)

    def renew(self) -> None:
        """Give up the connection for a new one, and send again what was not acknowledged."""
        with self._lock:
            self.renewed += 1
            self._moved = time.monotonic()
        print(f"{self.topic}: a new connection after {self.acknowledged} of {self.sent}", flush=True)
        # One that is stuck may not end, either.
        threading.Thread(target=_closed, args=(self._client,), daemon=True).start()
        self._connect()
        for number in range(self.acknowledged, self.sent):
            self._send(number)

    def close(self) -> None:
        """Close the connection."""
        _closed(self._client)

    def _connect(self) -> None:
        until = time.monotonic() + _GIVEN_UP_S
        name = f"lasting-{self.topic.rpartition('/')[2]}"
        options = {"batching_enabled": False, "send_timeout_millis": 0, "block_if_queue_full": True}
        self._client = pulsar.Client(self.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        while True:
            try:
                self._producer = self._client.create_producer(self.topic, producer_name=name, **options)
            except pulsar.PulsarException:
                # The broker is away, or has the one before under this name.
                if time.monotonic() > until:
                    raise
                time.sleep(1)
            else:
                return

    def _send(self, number: int) -> None:
        value = b"%08d" % number + b"." * self.size
        answered = partial(self._answered, self.renewed, number)
        # The client takes 0 for none.
        self._producer.send_async(value, answered, partition_key=f"k{number % 7}", sequence_id=number + 1)

    def _answered(self, connection: int, number: int, result: Any, _message_id: Any) -> None:
        with self._lock:
            if connection != self.renewed:
                # What it says now is that it was closed; or the new one is told the same.
                return
            self._moved = time.monotonic()
            if result == pulsar.Result.Ok:
                self.acknowledged = number + 1
            else:
                self._failures.append(result)


def _closed(client: Any) -> None:
    with suppress(pulsar.PulsarException):
        client.close()
