"""Lists of ledgers as they go into ZooKeeper: compressed as they were, and never too large."""

import os

import pytest

from ledgerfs.errors import UnsupportedWriteError
from ledgerfs.formats.decompression import Compression
from ledgerfs.formats.managed_ledgers.list_changes import EditedList, without_ledgers
from ledgerfs.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    build_managed_ledger_info,
    parse_managed_ledger_info,
)
from ledgerfs.formats.managed_ledgers.stored_values import codec_of, uncompressed
from ledgerfs.offload.list_bytes import MOST_BYTES, stored

KEY = "/managed-ledgers/public/default/persistent/orders"
LIST = build_managed_ledger_info(
    ManagedLedgerInfo(tuple(LedgerInfo(one, 5, 300, 1_700_000_000_000 + one) for one in range(80_000)))
)


@pytest.mark.parametrize("codec", list(Compression))
def test_a_list_stays_compressed_as_it_was(codec: Compression) -> None:
    data = stored(EditedList(LIST[:0], codec), key=KEY)
    assert (codec_of(data, key=KEY), uncompressed(data, key=KEY)) == (codec, b"")
    assert codec != Compression.NONE or data == b""


def test_a_list_that_fits_only_when_it_is_compressed() -> None:
    assert len(LIST) > 1 << 20
    data = stored(EditedList(LIST, Compression.ZSTD), key=KEY)
    edited = without_ledgers(data, range(10), key=KEY)
    found = stored(edited, key=KEY)
    assert len(found) < MOST_BYTES
    assert codec_of(found, key=KEY) == Compression.ZSTD
    assert [one.ledger_id for one in parse_managed_ledger_info(found, key=KEY).ledgers] == list(range(10, 80_000))


@pytest.mark.parametrize(
    ("plain", "codec", "told"),
    [
        (LIST, Compression.NONE, "managedLedgerInfoCompressionType"),
        (os.urandom(MOST_BYTES + 1), Compression.ZSTD, "compressed with ZSTD"),
    ],
)
def test_more_than_a_zookeeper_takes_is_refused(plain: bytes, codec: Compression, told: str) -> None:
    with pytest.raises(UnsupportedWriteError, match=told) as raised:
        stored(EditedList(plain, codec), key=KEY)
    assert raised.value.key == KEY
    assert "1,000,000" in raised.value.reason
