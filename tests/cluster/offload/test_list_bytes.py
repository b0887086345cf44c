"""Lists of ledgers as they go into ZooKeeper: compressed as they were, and never too large."""

import random

import pytest

from ledgerfs.errors import UnsupportedWriteError
from ledgerfs.formats.decompression import Compression
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    EditedList,
    LedgerInfo,
    ManagedLedgerInfo,
    OffloadContext,
    build_managed_ledger_info,
    parse_managed_ledger_info,
    with_contexts,
)
from ledgerfs_cluster.formats.managed_ledgers.stored_values import codec_of, uncompressed
from ledgerfs_cluster.offload.list_bytes import MOST_BYTES, stored
from ledgerfs_cluster.offload.offload_driver import driver_of_bucket
from tests.support.each import for_each

KEY = "/managed-ledgers/public/default/persistent/orders"
CONTEXT = OffloadContext(
    *("00112233-4455-6677-8899-aabbccddeeff", True, False, 1_700_000_000_000, "aws-s3"),
    driver_of_bucket("aws-s3", "tier", "us-east-1", "https://s3.example.com").properties,
)


@pytest.fixture(name="info", scope="module")
def _info() -> bytes:
    """A list of offloaded ledgers that has more bytes than a ZooKeeper takes."""
    ledgers = (LedgerInfo(one, 5, 300, 1_700_000_000_000 + one, CONTEXT) for one in range(8000))
    return build_managed_ledger_info(ManagedLedgerInfo(tuple(ledgers)))


@for_each("codec", list(Compression))
def test_a_list_stays_compressed_as_it_was(codec: Compression) -> None:
    data = stored(EditedList(b"", codec), key=KEY)
    assert (codec_of(data, key=KEY), uncompressed(data, key=KEY)) == (codec, b"")
    assert codec != Compression.NONE or data == b""


def test_a_list_that_fits_only_when_it_is_compressed(info: bytes) -> None:
    assert len(info) > 1 << 20
    data = stored(EditedList(info, Compression.ZSTD), key=KEY)
    edited = with_contexts(data, {0: CONTEXT}, key=KEY)
    found = stored(edited, key=KEY)
    assert len(found) < MOST_BYTES
    assert codec_of(found, key=KEY) == Compression.ZSTD
    assert [one.ledger_id for one in parse_managed_ledger_info(found, key=KEY).ledgers] == list(range(8000))


def test_more_than_a_zookeeper_takes_is_refused(info: bytes) -> None:
    for plain, codec, reported in (
        (info, Compression.NONE, "managedLedgerInfoCompressionType"),
        (random.Random(1).randbytes(MOST_BYTES + 1), Compression.ZSTD, "compressed with ZSTD"),
    ):
        with pytest.raises(UnsupportedWriteError, match=reported) as raised:
            stored(EditedList(plain, codec), key=KEY)
        assert raised.value.key == KEY
        assert "1,000,000" in raised.value.reason
