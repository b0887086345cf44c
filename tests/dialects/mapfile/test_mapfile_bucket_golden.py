"""Every ledger that Pulsar's filesystem offloader wrote, through every view, on every kind of store."""

import pickle
import uuid
from functools import cache
from pathlib import Path
from typing import Any

import fsspec
import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.formats.mapfile.names import parse_ledger_folder
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.fsspec_impl.filesystem import LedgerFileSystem
from ledgerfs.upkeep.verification import verify
from tests.support.golden_rows import expected_of, rows_of, wanted
from tests.support.ledgers import record
from tests.support.mapfiles import read_all
from tests.support.s3 import S3Server

PLACES = ["file", "base", "s3", "memory"]


@pytest.fixture(scope="module", params=PLACES)
def place(request: pytest.FixtureRequest, golden_mapfiles: Path, s3: S3Server) -> tuple[str, dict[str, Any]]:
    """URL and options of the golden bucket; as ``base`` it is a folder of the one that is opened."""
    bucket = golden_mapfiles / "bucket"
    if request.param == "file":
        return f"file://{bucket}", {}
    if request.param == "base":
        return f"file://{golden_mapfiles}", {}
    objects = {path.relative_to(bucket).as_posix(): path.read_bytes() for path in bucket.rglob("*") if path.is_file()}
    name = f"mapfiles-{uuid.uuid4()}"
    if request.param == "memory":
        fsspec.filesystem("memory").pipe({f"/{name}/{key}": data for key, data in objects.items()})
        return f"memory://{name}", {}
    s3.make_bucket(name, {f"pulsar/{key}": data for key, data in objects.items()})
    return f"s3://{name}", s3.options


@pytest.fixture(scope="module")
def bucket(place: tuple[str, dict[str, Any]]) -> Bucket:
    return open_bucket(*place)


@pytest.fixture(scope="module")
def written(golden_mapfiles: Path) -> dict[int, list[tuple[int, bytes]]]:
    """The entries of each ledger, read by hand, as (key, entry)."""
    found = {}
    folder = golden_mapfiles / "bucket"
    for path in folder.rglob("data"):
        parsed = parse_ledger_folder(path.parent.relative_to(folder).as_posix())
        assert parsed is not None
        found[parsed.ledger_id] = read_all(path.read_bytes())[1:]
    assert len(found) == 63
    return found


@cache
def wanted_rows(golden: Path, topic: str) -> list[dict[str, Any]]:
    return wanted(expected_of(golden, topic))


def test_every_topic_is_there(bucket: Bucket, golden_mapfiles: Path) -> None:
    names = {
        path.parent.parent.relative_to(golden_mapfiles / "bucket").as_posix() for path in golden_mapfiles.rglob("data")
    }
    assert [one.managed_ledger for one in bucket.topics()] == sorted(names)
    assert sum(one.ledgers for one in bucket.topics()) == 63
    assert not bucket.catalog.gaps.size
    assert {ref.state.name for ref in bucket.catalog.refs()} == {"SOUND"}


def test_every_message_is_what_pulsar_reads(bucket: Bucket, golden_mapfiles: Path) -> None:
    for one in bucket.topics():
        topic = topic_of(one.managed_ledger)
        assert rows_of(bucket.topic(topic).scan()) == wanted_rows(golden_mapfiles, topic), topic


@pytest.mark.long
def test_every_file_of_entries_is_the_records(
    place: tuple[str, dict[str, Any]], bucket: Bucket, written: dict[int, list[tuple[int, bytes]]]
) -> None:
    protocol = place[0].partition("://")[0]
    fs = LedgerFileSystem(place[0], target_protocol=protocol, target_options=place[1])
    files = {int(Path(name).stem): name for name in fs.glob("entries/public/golden/*/*.entries")}
    assert files.keys() == written.keys()
    for ledger_id, entries in written.items():
        expected = b"".join(record(*one) for one in entries)
        assert fs.cat_file(files[ledger_id]) == expected
        assert fs.info(files[ledger_id])["size"] == len(expected)
        reader = pickle.loads(pickle.dumps(bucket.ledger(ledger_id)))
        assert [bytes(entry.data) for entry in reader.read(0, reader.last_entry)] == [entry for _, entry in entries]
        assert bytes(reader.read(reader.last_entry, reader.last_entry)[0].data) == entries[-1][1]


@pytest.mark.long
def test_all_is_well(bucket: Bucket) -> None:
    report = verify(bucket)
    assert [one for one in report.findings if one.kind != "foreign-keys"] == []
    assert (report.ledgers, report.is_damaged, report.is_complete) == (63, False, True)
    assert report.entries == sum(one.entries for one in bucket.topics())


def test_a_second_listing_reads_nothing_again(bucket: Bucket) -> None:
    before = bucket.refresh()
    received = bucket.stats().bytes_received
    assert (bucket.refresh().ledgers == before.ledgers).all()
    assert bucket.stats().bytes_received == received
