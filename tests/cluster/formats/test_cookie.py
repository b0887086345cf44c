"""The cookies of bookies: real ones, and what is none."""

import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.errors import CorruptMetadataError
from ledgerfs_cluster.formats.bookkeeper.cookie import Cookie, parse_cookie
from tests.support.each import for_each

GOLDEN = Path(__file__).parent.parent.parent / "data" / "golden" / "bookie-dbledger.tar.xz"
_MADE = b"""4
bookieHost: "bookie-0.bookies:3181"
journalDir: "/data/journal"
ledgerDirs: "2\\t/data/1\\t/data/2"
instanceId: "cluster"
indexDirs: "1\\t/data/1"
"""


def test_a_real_cookie() -> None:
    with tarfile.open(GOLDEN) as tar:
        file = tar.extractfile("bookie-dbledger/ledgers/current/VERSION")
        assert file is not None
        data = file.read()
    assert parse_cookie(data, key="k") == Cookie("127.0.0.1:24001", "412abd2b-6c68-45f0-8aa6-b0face93e367")


def test_a_cookie_without_an_instance() -> None:
    lines = [line for line in _MADE.splitlines() if b"instanceId" not in line]
    expected = Cookie("bookie-0.bookies:3181", None)
    assert parse_cookie(b"\n".join(lines), key="k") == expected
    assert parse_cookie(b"\r\n".join([*lines, b'instanceId: ""']), key="k") == expected


def test_a_field_of_a_later_version_is_passed_over() -> None:
    data = _MADE.replace(b"4\n", b"6\n", 1) + b"number: -1.5\nword: TRUE\n"
    assert parse_cookie(data, key="k") == Cookie("bookie-0.bookies:3181", "cluster")


@for_each(
    ("data", "reason"),
    [
        (b"", "layout version b''"),
        (b"-4\n", "layout"),
        (b"3\nhost:1\n/journal\n/ledgers\n", "layout version b'3'"),
        (b"9" * 5000 + b"\n", "layout"),
        (b"4\n", "an invalid bookie id ''"),
        (b'4\nbookieHost: "a b"\n', "an invalid bookie id 'a b'"),
        (b'4\nbookieHost: "../a"\n', "an invalid bookie id"),
        (b'4\nbookieHost: "a\\0b"', "an invalid bookie id"),
        (b"4\nbookieHost: bare\n", "not valid Protobuf text"),
        (b'4\nbookieHost: "a\n', "not valid Protobuf text"),
        (b'4\nbookieHost: "a"\nbookieHost: "b"\n', "not valid Protobuf text"),
        (b'4\nbookieHost: "\xff"\n', "not valid Protobuf text"),
        (b'4\nbookieHost: "' + b"\\11" * 20000 + b"\n", "not valid Protobuf text"),
        (_MADE + b" " * 65536, "too large: more than 65536 bytes"),
    ],
)
def test_what_is_no_cookie_is_an_error(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptMetadataError, match=reason) as raised:
        parse_cookie(data, key="k")
    assert raised.value.key == "k"
    assert len(str(raised.value)) < 300


@given(st.integers(0, len(_MADE)), st.integers(0, len(_MADE) - 1), st.integers(0, 255))
def test_what_is_cut_or_flipped_is_a_cookie_or_an_error(size: int, at: int, bits: int) -> None:
    flipped = bytearray(_MADE)
    flipped[at] ^= bits
    try:
        found = parse_cookie(bytes(flipped[:size]), key="k")
    except CorruptMetadataError:
        return
    assert found.bookie_id
    assert "/" not in found.bookie_id
