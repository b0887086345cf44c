"""The buckets that reads are measured on, in a folder that the slow store serves.

All messages are valid to a scan, CRC32C and all, but only some thousand of them are made: a record's id stands outside of what its
checksum covers, so the same entries serve for each stretch of a ledger.
"""

import os
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path

from benchmarks.decode import entries
from benchmarks.slow_store import SlowStore
from ledgerfs.formats.pulsar_blob.block import BLOCK_HEADER_BYTES
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES
from tests.support.ledgers import NAME, offload

BLOCK = 64 << 20
LEDGER_ID = 7
WARM_TOPIC = "persistent://public/default/warm"
"""A topic of a few messages in each bucket: reading it first compiles, imports and connects all there is to."""

COLD_COPIES = 30
_MESSAGE = 1024
_POOL = 4096
_WARM_LEDGER_ID = 1


@dataclass(frozen=True, slots=True)
class LargeLedger:
    """The one large ledger of bucket ``large``."""

    key: str
    size: int
    entries: int
    records_size: int

    @property
    def object_path(self) -> str:
        """The data object, as s3fs knows it."""
        return f"large/{self.key}"

    @property
    def tree_path(self) -> str:
        """Its file in the tree."""
        return f"entries/public/default/orders/{LEDGER_ID}.entries"

    def random_entries(self, number: int) -> list[int]:
        """Return ids, the same ones in each run."""
        rnd = random.Random(number)
        return [rnd.randrange(self.entries) for _ in range(number)]


@dataclass(frozen=True, slots=True)
class Site:
    """All that a measurement needs to know.

    Attributes
    ----------
    topic_bytes, topic_entries
        Bytes and number of all entries of the topic in bucket ``topic``.
    cold
        Names of buckets which are all the large one, but which nobody can know to be the same: one for each cold read.

    """

    store: SlowStore
    large: LargeLedger
    topic_bytes: int
    topic_entries: int
    cold: tuple[str, ...]


def make_site(folder: Path, store: SlowStore, large_size: int, ledgers: int, ledger_size: int) -> Site:
    """Write all buckets, in another process, which takes the memory that this needs with it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_make_site, folder, store, large_size, ledgers, ledger_size).result()


def bytes_needed(large_size: int, ledgers: int, ledger_size: int) -> int:
    """Return the disk space that the buckets take, and a little more."""
    return (large_size + ledgers * ledger_size) * 21 // 20


def _make_site(folder: Path, store: SlowStore, large_size: int, ledgers: int, ledger_size: int) -> Site:
    pool = list(islice(entries(_MESSAGE, batched=False), _POOL))
    large = _fill(pool, large_size)
    key = _put(folder / "large", large, LEDGER_ID)
    cold = tuple(f"cold-{i:02}" for i in range(COLD_COPIES))
    for name in cold:
        (folder / name).symlink_to("large", target_is_directory=True)
    topic = _fill(pool, ledger_size)
    for i in range(ledgers):
        _put(folder / "topic", topic, LEDGER_ID + i)
    for bucket in ("large", "topic"):
        _put(folder / bucket, pool[:16], _WARM_LEDGER_ID, "public/default/persistent/warm")
    size = (folder / "large" / key).stat().st_size
    records = sum(map(len, large)) + RECORD_HEADER_BYTES * len(large)
    return Site(
        store,
        LargeLedger(key, size, len(large), records),
        ledgers * sum(map(len, topic)),
        ledgers * len(topic),
        cold,
    )


def _fill(pool: list[bytes], size: int) -> list[bytes]:
    """Return entries whose data object has just less than ``size`` bytes."""

    def fitting() -> Iterator[bytes]:
        # A block more than there will be: what is left of each block is padding.
        left = size - BLOCK_HEADER_BYTES * (size // BLOCK + 1) - (size // BLOCK) * 2 * _MESSAGE
        for entry in cycle(pool):
            left -= RECORD_HEADER_BYTES + len(entry)
            if left < 0:
                return
            yield entry

    return list(fitting())


def _put(bucket: Path, made: list[bytes], ledger_id: int, name: str = NAME) -> str:
    """Write one ledger, to the disk and not only into its cache, which would empty itself during the measurements."""
    offloaded = offload(made, ledger_id, block_size=BLOCK, uuid=ledger_id, name=name)
    bucket.mkdir(exist_ok=True)
    for key, data in offloaded.objects.items():
        with (bucket / key).open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
    return next(iter(offloaded.objects))
