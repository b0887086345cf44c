"""What single stores do besides what every store promises (`tests/storage/test_store_suites.py`)."""

import time

import fsspec
import pytest

from ledgerfs.errors import (
    AccessDeniedError,
    ObjectNotFoundError,
    StoreUnreachableError,
)
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.storage.opening import open_store
from tests.support.s3 import CREDENTIALS, FaultProxy, S3Server

BODY = bytes(range(256)) * 40


@pytest.mark.long
def test_s3_reads_more_than_one_window_at_a_time(s3: S3Server, s3_bucket: str) -> None:
    s3.client.put_object(Bucket=s3_bucket, Key="a", Body=BODY)
    store = open_store(fsspec.filesystem("s3", **s3.options), s3_bucket)
    requests = [ReadRequest("a", i, i + 3) for i in range(600)]
    requests[550] = ReadRequest("missing", 0, 3)
    outcomes = list(store.read_many(requests))
    assert isinstance(outcomes[550], ObjectNotFoundError)
    assert [one for i, one in enumerate(outcomes) if i != 550] == [BODY[i : i + 3] for i in range(600) if i != 550]


def test_s3_without_credentials_says_so(s3: S3Server) -> None:
    store = open_store(fsspec.filesystem("s3", endpoint_url=s3.endpoint), "golden")
    with pytest.raises(AccessDeniedError, match="credentials"):
        list(store.list_pages())


def test_no_repr_shows_credentials(s3: S3Server, s3_bucket: str) -> None:
    store = open_store(fsspec.filesystem("s3", **s3.options), s3_bucket)
    assert CREDENTIALS["secret"] not in repr(store) + repr(store._handle) + store.url
    memory = open_store(fsspec.filesystem("memory"), "/x")
    assert "@" not in memory.url


@pytest.mark.parametrize("answered_before", [False, True])
def test_a_store_that_is_not_there_is_unreachable_soon(
    answered_before: bool, monkeypatch: pytest.MonkeyPatch, s3_bucket: str, proxy: FaultProxy
) -> None:
    monkeypatch.setattr("ledgerfs.storage.retries._FIRST_CONTACT_SECONDS", 0.5)
    fs = fsspec.filesystem("s3", **proxy.options)
    warm, cold = open_store(fs, s3_bucket), open_store(fs, s3_bucket)
    list(warm.list_pages())
    store = warm if answered_before else cold
    proxy.stop()
    if answered_before:
        monkeypatch.setenv("LEDGERFS_STORE_TIMEOUT", "3")
    began = time.monotonic()
    with pytest.raises(StoreUnreachableError):
        list(store.list_pages())
    seconds = time.monotonic() - began
    # A store that answered before is waited for: it may be restarting. Another is not, as long as it might be.
    assert seconds > 1.0 if answered_before else seconds < 120
