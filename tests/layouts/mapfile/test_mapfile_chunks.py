"""Hadoop's checksums beside MapFiles: whatever byte is another one is named, also where nothing of Pulsar's would tell."""

import struct
import zlib
from pathlib import Path

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.cache.block_cache import process_cache
from ledgerfs.catalog.findings import Finding, Severity
from ledgerfs.errors import CorruptObjectError
from ledgerfs.formats.mapfile.chunk_checksums import parse_chunk_checksums
from ledgerfs.formats.mapfile.header import RecordCompression
from ledgerfs.verification import verify
from tests.support.mapfile_buckets import MadeMapFile, mapfile, messages, put_file, put_mapfiles
from tests.support.mapfiles import MapFileWriter

SIZES = {"zero": 0, "negative": -512, "huge": 2**31 - 1}
"""Sizes of chunks that no file has."""


def crc_file(data: bytes, size: int = 512) -> bytes:
    """Hadoop's ``ChecksumFileSystem``."""
    chunks = (data[at : at + size] for at in range(0, len(data), size))
    return b"crc\0" + struct.pack(">i", size) + b"".join(struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks)


def put(root: Path, made: MadeMapFile, size: int = 512) -> str:
    for name, data in (("data", made.data), ("index", made.index)):
        put_file(root / made.folder / f".{name}.crc", crc_file(data, size))
    return put_mapfiles(root, made)


def found_in(url: str) -> list[Finding]:
    # A file that is written twice within one tick of the clock looks the same.
    process_cache.clear()
    return list(verify(open_bucket(url)).findings)


@pytest.fixture
def made() -> MadeMapFile:
    return mapfile(messages(1, 300, 100), writer=MapFileWriter(RecordCompression.NONE))


def test_golden_checksums_are_those_of_hadoop(golden_mapfiles: Path) -> None:
    files = sorted(golden_mapfiles.rglob(".*.crc"))
    assert len(files) == 126
    for path in files:
        data = path.with_name(path.name[1:-4]).read_bytes()
        assert path.read_bytes() == crc_file(data)
        parsed = parse_chunk_checksums(path.read_bytes(), file_size=len(data))
        assert parsed.wrong_chunks(memoryview(data), 0) == []


def test_the_chunk_is_named(made: MadeMapFile, tmp_path: Path) -> None:
    for name, size in (("data", 512), ("data", 100), ("data", 4096), ("data", 50 << 20), ("index", 100)):
        folder = tmp_path / f"{name}-{size}"
        url = put(folder, made, size)
        assert found_in(url) == []
        content = getattr(made, name)
        at = len(content) - 3
        put_file(folder / made.folder / name, content[:at] + b"?" + content[at + 1 :])
        chunks = [one for one in found_in(url) if one.kind == "chunk-mismatch"]
        assert [one.offset for one in chunks] == [at // size * size], (name, size)
        reported = f"to {len(content) - 1} do not match Hadoop's checksums in {made.folder}/.{name}.crc"
        assert reported in chunks[0].message, (name, size)
        assert not [one for one in verify(open_bucket(url), quick=True).findings if one.kind == "chunk-mismatch"]


def test_many_places_are_named_and_counted(tmp_path: Path) -> None:
    made = mapfile(messages(1, 300, 9000), writer=MapFileWriter(RecordCompression.NONE))
    url = put(tmp_path, made)
    crc = bytearray(crc_file(made.data))
    for chunk in (*range(5, 9), *range(2500, 2600, 2)):
        crc[8 + 4 * chunk] ^= 1
    put_file(tmp_path / made.folder / ".data.crc", bytes(crc))
    found = found_in(url)
    assert [one.offset for one in found[:2]] == [5 * 512, 2500 * 512]
    assert "bytes 2560 to 4607" in found[0].message
    assert len(found) == 21
    assert "51 places in all" in found[-1].message


def test_checksums_that_are_none(made: MadeMapFile, tmp_path: Path) -> None:
    """Hadoop ignores them, too."""
    good = crc_file(made.data)
    bad = {
        "empty": b"",
        "magic": b"crd" + good[3:],
        "short": good[:-1],
        "long": good + bytes(8 * len(made.data)),
        **{name: good[:4] + struct.pack(">i", size) + good[8:] for name, size in SIZES.items()},
        "of another": crc_file(b"x" * 5000),
    }
    for what, data in bad.items():
        url = put(tmp_path / what, made)
        path = tmp_path / what / made.folder / ".data.crc"
        put_file(path, data)
        (finding,) = found_in(url)
        assert (finding.severity, finding.kind, finding.key) == (
            Severity.REMARK,
            "odd-checksum-file",
            f"{made.folder}/.data.crc",
        ), what
        if what != "long":
            with pytest.raises(CorruptObjectError):
                parse_chunk_checksums(path.read_bytes(), file_size=len(made.data))
        path.unlink()
        assert found_in(url) == [], what
