"""Topics that are filled and read by subscriptions, many at once."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pulsar

from interop.live_producer import produce_to

One = TypeVar("One")

_AT_ONCE = 6
_RECEIVE_MS = 30_000


def fill(client: pulsar.Client, topic: str, messages: int, size: int) -> None:
    """Send messages, one an entry, and wait until all are acknowledged."""
    producer = produce_to(client, topic, size)
    producer.send(messages)
    producer.wait(messages)
    producer.producer.close()


def subscribe(client: pulsar.Client, topic: str, name: str, acknowledged: Iterable[int]) -> None:
    """Subscribe from the start of a topic, and acknowledge those of its messages that have these numbers, also within batches."""
    wanted = set(acknowledged)
    consumer = client.subscribe(
        topic,
        name,
        consumer_type=pulsar.ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
        batch_index_ack_enabled=True,
    )
    for number in range(max(wanted, default=-1) + 1):
        message = consumer.receive(_RECEIVE_MS)
        if number in wanted:
            consumer.acknowledge(message)
    # The client sends what is acknowledged every tenth of a second, and not when it is closed.
    time.sleep(0.5)
    consumer.close()


def for_each(many: Iterable[One], do: Callable[[One], object]) -> None:
    """Do something with each of many, some at once; raises the first error."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for done in [pool.submit(do, one) for one in many]:
            done.result()
