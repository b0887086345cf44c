"""A file is whole, or is seen not to be."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.cache.sealed_file import ALWAYS, BLOCK, SealedWriter, read_seal

STATE = b"s" * 32
NAME = "a" * 64 + ".file"


def sealed(path, *pieces, state=ALWAYS):
    """Write a sealed file of these pieces, and return its bytes."""
    with path.open("wb") as file:
        writer = SealedWriter(file.fileno())
        for piece in pieces:
            assert writer.write(piece) == len(piece)
        assert writer.tell() == sum(map(len, pieces))
        writer.finish(NAME, state)
    return path.read_bytes()


def one_file(tmp_path_factory):
    """Return the file that all examples write again."""
    return tmp_path_factory.getbasetemp() / "sealed-file"


def is_whole(path):
    with path.open("rb") as file:
        seal = read_seal(file.fileno(), NAME)
        return seal is not None and seal.is_intact(file.fileno())


def test_what_was_written_is_whole(tmp_path):
    for pieces in ((), (b"",), (b"abc",), (b"abc", memoryview(b"defg"), bytearray(b"h"))):
        data = sealed(tmp_path / "file", *pieces, state=STATE)
        content = b"".join(pieces)
        assert data.startswith(content)
        with (tmp_path / "file").open("rb") as file:
            seal = read_seal(file.fileno(), NAME)
        assert (seal.size, seal.state) == (len(content), STATE)
        assert is_whole(tmp_path / "file"), pieces


def test_a_state_is_kept_by_what_holds_in_it_only(tmp_path):
    for state, expected in [(STATE, [True, False]), (ALWAYS, [True, True])]:
        sealed(tmp_path / "file", b"abc", state=state)
        with (tmp_path / "file").open("rb") as file:
            seal = read_seal(file.fileno(), NAME)
        assert [seal.holds_in(STATE), seal.holds_in(b"t" * 32)] == expected


@given(content=st.binary(max_size=300), data=st.data())
def test_any_flipped_bit_is_found(content, data, tmp_path_factory):
    path = one_file(tmp_path_factory)
    whole = bytearray(sealed(path, content, state=STATE))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(whole)
    assert not is_whole(path)


@given(content=st.binary(max_size=300), data=st.data())
def test_any_cut_or_added_byte_is_found(content, data, tmp_path_factory):
    path = one_file(tmp_path_factory)
    whole = sealed(path, content)
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert not is_whole(path)
    path.write_bytes(whole + data.draw(st.binary(min_size=1, max_size=100)))
    assert not is_whole(path)


def test_each_block_is_verified_by_itself(tmp_path):
    content = bytes(range(256)) * (3 * BLOCK // 256) + b"the rest"
    data = bytearray(sealed(tmp_path / "file", content[:100], content[100 : BLOCK + 7], content[BLOCK + 7 :]))
    data[BLOCK] ^= 1
    (tmp_path / "file").write_bytes(data)
    with (tmp_path / "file").open("rb") as file:
        seal = read_seal(file.fileno(), NAME)
        for start, end in ((0, BLOCK), (5, 9), (2 * BLOCK, len(content)), (3 * BLOCK - 1, 3 * BLOCK + 1), (7, 7)):
            assert seal.read(file.fileno(), start, end) == content[start:end], start
        for start, end in ((BLOCK, BLOCK + 1), (0, len(content)), (2 * BLOCK - 1, 2 * BLOCK)):
            assert seal.read(file.fileno(), start, end) is None, start
        assert not seal.is_intact(file.fileno())
        assert read_seal(file.fileno(), NAME.replace("a", "b")) is None


def test_a_write_that_fails_is_remembered_by_the_writer(tmp_path):
    descriptor = os.open("/dev/full", os.O_WRONLY)
    writer = SealedWriter(descriptor)
    with pytest.raises(OSError, match="No space left"):
        writer.write(b"abc")
    assert writer.failure.errno == 28
    os.close(descriptor)
