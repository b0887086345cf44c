"""Stores that send the checksum they have kept: what does not fit it twice in the same way is damage, and waited for by nobody."""

from typing import Any

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.errors import CorruptObjectError, StoreError
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.verification import Severity, verify
from tests.support.invoked import run
from tests.support.ledgers import offload
from tests.support.s3 import Fault, FaultProxy, S3Server
from tests.support.tries import without_pauses


@pytest.fixture
def bucket(s3: S3Server, s3_bucket: str) -> str:
    for ledger_id in (1, 2):
        for key, data in offload([b"x" * 100] * 10, ledger_id, uuid=ledger_id).objects.items():
            s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data)
    return s3_bucket


def is_index_of_1(method: str, path: str, _: Any) -> bool:
    return method == "GET" and path.endswith("-ledger-1-index")


def test_a_flipped_bit_in_an_index_is_damage_at_once(bucket: str, proxy: FaultProxy) -> None:
    """Neither the library nor a command waits for it."""
    proxy.faults.append(fault := Fault("damaged", matches=is_index_of_1))
    report = verify(open_bucket(f"s3://{bucket}", proxy.options), quick=True)
    assert [(one.severity, one.kind) for one in report.findings] == [(Severity.DAMAGE, "unreadable-index")]
    assert report.findings[0].key is not None
    assert report.findings[0].key.endswith("-ledger-1-index")
    assert "checksum" in report.findings[0].message
    assert fault.met <= 4
    options = [f"-o{name}={value}" for name, value in proxy.options.items()]
    assert b"damaged in the store" in run("verify", "--quick", f"s3://{bucket}", *options, code=1).stdout
    run("topics", f"s3://{bucket}", *options)
    assert 1 < fault.met <= 12


def test_bits_that_flip_on_the_way_are_asked_for_again(
    bucket: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_pauses(monkeypatch)
    proxy.faults.append(fault := Fault("wavering", times=3, matches=is_index_of_1))
    assert verify(open_bucket(f"s3://{bucket}", proxy.options), quick=True).findings == ()
    assert fault.met >= 3


def test_the_checksum_of_another_part_says_nothing_of_this_one(bucket: str, proxy: FaultProxy) -> None:
    store = open_bucket(f"s3://{bucket}", proxy.options).store.store
    key = next(stat.key for page in store.list_pages() for stat in page if stat.key.endswith("-1-index"))
    size = store.head(key).stat.size
    proxy.faults.append(Fault("damaged", matches=is_index_of_1))
    (part,) = store.read_many([ReadRequest(key, 0, size - 1, is_checked=True)])
    assert type(part) is StoreError
    (whole,) = store.read_many([ReadRequest(key, 0, size, is_checked=True)])
    assert isinstance(whole, CorruptObjectError)
