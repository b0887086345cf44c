"""What single stores do besides what every store promises (`tests/storage/test_store_suites.py`)."""

import fsspec
import pytest

from ledgerfs.errors import (
    AccessDeniedError,
    StoreUnreachableError,
)
from ledgerfs.storage.opening import open_store
from tests.support.s3 import CREDENTIALS, FaultProxy, S3Server
from tests.support.tries import without_pauses


def test_s3_without_credentials_says_so(s3: S3Server) -> None:
    store = open_store(fsspec.filesystem("s3", endpoint_url=s3.endpoint), "golden")
    with pytest.raises(AccessDeniedError, match="credentials"):
        list(store.list_pages())


def test_no_repr_shows_credentials(s3: S3Server, s3_bucket: str) -> None:
    store = open_store(fsspec.filesystem("s3", **s3.options), s3_bucket)
    assert CREDENTIALS["secret"] not in repr(store) + repr(store._handle) + store.url
    memory = open_store(fsspec.filesystem("memory"), "/x")
    assert "@" not in memory.url


def test_a_store_that_is_not_there_is_unreachable_soon(
    monkeypatch: pytest.MonkeyPatch, s3_bucket: str, proxy: FaultProxy
) -> None:
    """A store that answered before may be restarting, and is tried for minutes; another one is tried for five seconds."""
    without_pauses(monkeypatch, bound_s=240)
    fs = fsspec.filesystem("s3", **proxy.options)
    known, unknown = open_store(fs, s3_bucket), open_store(fs, s3_bucket)
    list(known.list_pages())
    proxy.stop()
    for store in (known, unknown):
        with pytest.raises(StoreUnreachableError):
            list(store.list_pages())
    # Pauses of 0.1 to 0.8 s are the first four; all later ones have less than 5 s.
    assert 4 <= unknown.traffic.stats().requests <= 8
    assert known.traffic.stats().requests >= 36
