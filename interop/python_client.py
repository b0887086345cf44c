"""The Python client, which is the C++ one underneath: its bytes differ from Java's in small ways, and it produces too."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pulsar

from interop.keys import KEY_NAME, KeyPair

_CODECS = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}
_BATCHES = {"batching_enabled": True, "batching_max_messages": 37, "batching_max_publish_delay_ms": 20}
_WORDS = b"the quick brown fox offloads a lazy ledger, block by block; " * 200


@dataclass(frozen=True)
class PythonClient:
    """Writes into topics ``python-…`` of ``namespace``."""

    service_url: str
    namespace: str
    keys: KeyPair

    def produce(self, *, seed: int, round_number: int) -> None:
        """Write one round of every kind of message that this client can produce."""
        chance = random.Random(seed * 1000 + round_number)
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        client = pulsar.Client(self.service_url, logger=quiet)
        try:
            for name, codec in _CODECS.items():
                self._richly(client, chance, f"batched-{name}", 500, compression_type=codec, **_BATCHES)
            self._richly(client, chance, "plain", 200)
            self._richly(client, chance, "single-zlib", 40, compression_type=_CODECS["zlib"])
            self._richly(client, chance, "single-zstd", 40, compression_type=_CODECS["zstd"])
            reader = pulsar.CryptoKeyReader(str(self.keys.public), str(self.keys.private))
            for options in ({}, _BATCHES):
                self._richly(
                    client, chance, "encrypted", 40, encryption_key=KEY_NAME, crypto_key_reader=reader, **options
                )
            self._chunked(client, chance)
        finally:
            client.close()

    def _richly(self, client: Any, chance: random.Random, name: str, messages: int, **options: Any) -> None:
        """Write messages that have every optional field now and then."""
        with self._producer(client, name, **options) as send:
            for number in range(messages):
                send(chance.choice([_WORDS, chance.randbytes(300)])[: chance.randrange(300)], **_fields(number))

    def _chunked(self, client: Any, chance: random.Random) -> None:
        """Write messages larger than the broker takes in one piece."""
        for codec in (_CODECS["none"], _CODECS["zstd"]):
            with self._producer(client, "chunked", chunking_enabled=True, compression_type=codec) as send:
                send(chance.randbytes(5_000_000), partition_key="large")
                send(b"small", partition_key="small")

    @contextmanager
    def _producer(self, client: Any, name: str, **options: Any) -> Iterator[Any]:
        """Lend a function that sends; at the end, all that it sent is stored, or there is an error."""
        topic = f"persistent://{self.namespace}/python-{name}"
        producer = client.create_producer(topic, block_if_queue_full=True, **options)
        failures: list[Any] = []

        def sent(result: Any, _message_id: Any) -> None:
            if result != pulsar.Result.Ok:
                failures.append(result)

        yield lambda value, **fields: producer.send_async(value, sent, **fields)
        producer.flush()
        producer.close()
        if failures:
            raise RuntimeError(f"{topic}: {len(failures)} messages were not stored: {failures[0]}")


def _fields(number: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if number % 5:
        fields["partition_key"] = f"ключ-{number}" if number % 9 == 1 else f"k{number % 17}"
    if number % 3 == 0:
        fields["properties"] = {"n": str(number), "empty": "", "ü": "värde"}
    if number % 4 == 0:
        fields["event_timestamp"] = 1_700_000_000_000 + number * 1001
    if number % 7 == 0:
        fields["ordering_key"] = f"order-{number % 3}"
    if number % 31 == 5:
        fields["deliver_at"] = 1_700_000_000_000 + number
    return fields
