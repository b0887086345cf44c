"""The buckets of the read benchmark, in a folder that the slow store serves.

A scan accepts all messages, with their CRC32C, but only some thousand of them are made: a record's id is not part of the checksum, so the
same entries serve for each part of a ledger.
"""

import os
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path

from benchmarks.messages import entries
from benchmarks.slow_store import SlowStore
from ledgerfs.formats.pulsar_blob.block import BLOCK_HEADER_BYTES
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES
from tests.support.ledgers import NAME, offload

LEDGER_ID = 7
WARM_TOPIC = "persistent://public/default/warm"
"""A topic of a few messages in each bucket; reading it first compiles, imports and connects."""

COLD_COPIES = 30
SMALL_MESSAGES = 100
"""Of each ledger in bucket ``small``."""

_BLOCK = 64 << 20
_MESSAGE = 1024
_POOL = 4096
_WARM_LEDGER_ID = 1_000_000


@dataclass(frozen=True, slots=True)
class LargeLedger:
    """The large ledger of bucket ``large``."""

    key: str
    size: int
    entries: int
    records_size: int

    @property
    def tree_path(self) -> str:
        """Its file in the tree."""
        return f"entries/public/default/orders/{LEDGER_ID}.entries"

    def random_entries(self, number: int) -> list[int]:
        """Return ids, the same ones in each run."""
        rnd = random.Random(number)
        return [rnd.randrange(self.entries) for _ in range(number)]


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets of a store.

    Attributes
    ----------
    topic_bytes, topic_entries
        Bytes and number of all entries of the topic in bucket ``topic``.
    small_keys
        Objects of the topic in bucket ``small``: a data object and an index for each ledger.
    cold
        Buckets with the contents of ``large``, of which no cache has anything: one for each cold read.

    """

    store: SlowStore
    large: LargeLedger
    topic_bytes: int
    topic_entries: int
    small_keys: list[str]
    cold: tuple[str, ...]


def make_buckets(folder: Path, store: SlowStore, size: int, small_ledgers: int) -> Buckets:
    """Write a ledger of ``size`` bytes, 8 that have as much together, and small ones; in another process, which frees its memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_make_buckets, folder, store, size, small_ledgers).result()


def _make_buckets(folder: Path, store: SlowStore, size: int, small_ledgers: int) -> Buckets:
    pool = list(islice(entries(_MESSAGE, batched=False), _POOL))
    large = _fill(pool, size)
    key = _put(folder / "large", large, LEDGER_ID)
    cold = tuple(f"cold-{i:02}" for i in range(COLD_COPIES))
    for name in cold:
        (folder / name).symlink_to("large", target_is_directory=True)
    topic = _fill(pool, size // 8)
    for i in range(8):
        _put(folder / "topic", topic, LEDGER_ID + i)
    few = list(islice(entries(100, batched=False), SMALL_MESSAGES))
    for i in range(small_ledgers):
        _put(folder / "small", few, LEDGER_ID + i)
    small_keys = sorted(path.name for path in (folder / "small").iterdir())
    for bucket in ("large", "topic", "small"):
        _put(folder / bucket, pool[:16], _WARM_LEDGER_ID, "public/default/persistent/warm")
    # Else the page cache would be written out during the measurements.
    os.sync()
    records = sum(map(len, large)) + RECORD_HEADER_BYTES * len(large)
    ledger = LargeLedger(key, (folder / "large" / key).stat().st_size, len(large), records)
    return Buckets(store, ledger, 8 * sum(map(len, topic)), 8 * len(topic), small_keys, cold)


def _fill(pool: list[bytes], size: int) -> list[bytes]:
    """Return entries whose data object has just less than ``size`` bytes."""

    def fitting() -> Iterator[bytes]:
        # A block more than there will be: the rest of each block is padding.
        left = size - BLOCK_HEADER_BYTES * (size // _BLOCK + 1) - (size // _BLOCK) * 2 * _MESSAGE
        for entry in cycle(pool):
            left -= RECORD_HEADER_BYTES + len(entry)
            if left < 0:
                return
            yield entry

    return list(fitting())


def _put(bucket: Path, made: list[bytes], ledger_id: int, name: str = NAME) -> str:
    """Write one ledger; return the key of its data object."""
    offloaded = offload(made, ledger_id, block_size=_BLOCK, uuid=ledger_id, name=name)
    bucket.mkdir(exist_ok=True)
    for key, data in offloaded.objects.items():
        (bucket / key).write_bytes(data)
    return next(iter(offloaded.objects))
