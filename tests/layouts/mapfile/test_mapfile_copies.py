"""Copies of MapFiles: none looks more whole than what it was made from, and none lacks a ledger without a word."""

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledgerfs import copy_ledgers, open_bucket
from ledgerfs.errors import CorruptLedgerError, IncompleteCopyError, MissingLedgerError
from ledgerfs.formats.ledger_metadata import build_ledger_metadata
from ledgerfs.formats.mapfile.header import RecordCompression
from ledgerfs.fsspec_impl.filesystem import LedgerFileSystem
from ledgerfs.verification import verify
from ledgerfs_cluster.offload import LedgerOffloader
from tests.support.invoked import run
from tests.support.ledgers import CREATED_MS, NAME, ledger_metadata, offload, put_in_folder
from tests.support.mapfile_buckets import MadeMapFile, mapfile, messages, put_file, put_mapfiles
from tests.support.mapfiles import MapFileWriter, ledger_records

TOPIC = "persistent://public/default/orders"
UUID = "0f7c3cb1-8e0a-4b57-9a2a-3b1c5d7e9f10"


def swapped(ledger_id: int, **options: Any) -> MadeMapFile:
    """Return a ledger with another entry in place of one of its own, which is as valid, and longer."""
    entries = messages(ledger_id, 20)
    entries[7:8] = messages(ledger_id, 1, 50)
    return with_metadata_of(messages(ledger_id, 20), entries, ledger_id, **options)


def with_metadata_of(reported: list[bytes], entries: list[bytes], ledger_id: int, **options: Any) -> MadeMapFile:
    made = mapfile(entries, ledger_id, **options)
    known = build_ledger_metadata(ledger_metadata(reported, NAME, CREATED_MS))
    data, index = MapFileWriter(RecordCompression.BLOCK).files(ledger_records(known, entries))
    return MadeMapFile(made.ledger_id, made.uuid, made.name, made.entries, data, index)


def damage_of(url: str) -> list[str]:
    return [one.kind for one in verify(open_bucket(url)).findings if one.severity.value == "damage"]


@pytest.mark.parametrize(
    "options",
    [{}, {"check": False}, {"new_uuid": True}, {"block_size": 1 << 20}, {"unbatch": True}],
    ids=str,
)
def test_damage_that_only_totals_tell_is_not_copied(options: dict[str, Any], tmp_path: Path) -> None:
    url = put_mapfiles(tmp_path / "source", mapfile(messages(1, 5), 1), swapped(2))
    assert damage_of(url) == ["wrong-length"]
    target = tmp_path / "target"
    report = copy_ledgers(url, str(target), allow_incomplete=True, **options)
    assert (report.copied, [one.source.ledger_id for one in report.failed]) == (1, [2])
    assert "bytes, but its metadata has" in str(report.failed[0].error)
    assert len(list(target.iterdir())) == 2
    with pytest.raises(IncompleteCopyError):
        copy_ledgers(url, str(target), **options)


def test_nor_by_any_other_way(tmp_path: Path) -> None:
    url = put_mapfiles(tmp_path / "source", swapped(2))
    run("offload", url, str(tmp_path / "target"), code=1)
    target = open_bucket(tmp_path / "target")
    with pytest.raises(CorruptLedgerError, match="its metadata has"):
        LedgerOffloader(target).offload(open_bucket(url).ledger(2), UUID)
    with pytest.raises(CorruptLedgerError, match="its metadata has"):
        LedgerFileSystem(url).cp_file(
            "entries/public/default/orders/2.entries", "entries/public/default/other/3.entries"
        )
    assert list((tmp_path / "target").iterdir()) == []
    assert [path.name for path in (tmp_path / "source").iterdir()] == ["public"]


def test_a_ledger_that_seems_to_be_written_is_not_left_out(tmp_path: Path) -> None:
    """As after `cp -r`, which makes every file new: nobody can tell a writer from a crash."""
    whole = mapfile(messages(2, 30), 2)
    young = replace(whole, data=whole.data[:-60])
    alone = mapfile(messages(3, 20), 3, name="public/default/persistent/payments", last_entry=29)
    url = put_mapfiles(tmp_path / "source", mapfile(messages(1, 5), 1))
    put_mapfiles(tmp_path / "source", young, alone, at=time.time() - 5)
    report = copy_ledgers(url, str(tmp_path / "target"), allow_incomplete=True)
    assert (report.copied, [one.ledger_id for one in report.missing], report.is_complete) == (1, [2, 3], False)
    reported = run("offload", url, str(tmp_path / "target"), "--json", code=1)
    assert [
        (one["topic"], one["source_ledger_id"], one["source_uuid"])
        for one in json.loads(reported.stdout)
        if one["outcome"] == "failed"
    ] == [(TOPIC, 2, young.uuid), ("persistent://public/default/payments", 3, alone.uuid)]
    assert f"failed  {young.folder}/data: it is still being written" in reported.stderr.decode()
    run("offload", url, str(tmp_path / "target"), "--topic", TOPIC, code=1)
    # Beside a whole copy it is nothing that a copy of the bucket lacks; beside another ledger of its id it is.
    other = offload(messages(2, 29), 2, uuid=7)
    put_in_folder(tmp_path / "source", other)
    run("offload", url, str(tmp_path / "not"), "--topic", TOPIC, code=1)
    for key in other.objects:
        (tmp_path / "source" / key).unlink()
    put_in_folder(tmp_path / "source", offload(whole.entries, 2, uuid=7))
    run("offload", url, str(tmp_path / "other"), "--topic", TOPIC)


def test_a_ledger_of_unknown_topic_is_not_left_out(tmp_path: Path) -> None:
    url = put_mapfiles(tmp_path / "source", mapfile(messages(1, 5), 1))
    put_file(tmp_path / "source" / "archive" / f"2-{UUID}" / "index", b"")
    report = copy_ledgers(url, str(tmp_path / "target"), allow_incomplete=True)
    assert [(one.ledger_id, one.topic, one.key) for one in report.missing] == [(2, None, f"archive/2-{UUID}")]
    run("offload", url, str(tmp_path / "target"), code=1)
    # It may be of any topic, so that one which is named is whole as far as anybody knows.
    assert run("offload", url, str(tmp_path / "target"), "--topic", TOPIC).stderr.count(b"in this bucket is unknown")


@pytest.mark.parametrize("newer", [1, 2])
def test_of_copies_that_contradict_each_other_none_is_copied(newer: int, tmp_path: Path) -> None:
    """By their metadata; of those that differ in nothing else, the damaged one fails alone."""
    now = time.time() - 86400
    put_mapfiles(tmp_path / "a", mapfile(messages(2, 20), 2, uuid=1), at=now + (newer == 1))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    one = put_mapfiles(tmp_path / "a", mapfile(messages(2, 30), 2, uuid=2), at=now + (newer == 2))
    with pytest.raises(MissingLedgerError, match="different entries"):
        open_bucket(one).topic(TOPIC).count()
    report = copy_ledgers(one, str(tmp_path / "target"), allow_incomplete=True)
    assert (report.copied, len(report.failed)) == (0, 2)
    other = put_mapfiles(tmp_path / "b", swapped(2, uuid=2), at=now + (newer == 2))
    assert "wrong-length" in damage_of(other)
    report = copy_ledgers(other, str(tmp_path / "target"), allow_incomplete=True)
    assert [failed.source.uuid[-1] for failed in report.failed] == ["2"]
    assert report.copied == 1


@pytest.mark.parametrize(
    ("entries", "more", "reported"),
    [
        (22, b"", "the file has entries up to 21 after entry 19, the last one in the metadata,"),
        (20, b"?" * 5, "the file has 5 more bytes after entry 19, the last one in the metadata,"),
        (20, None, "found key 19, expected 20 after entry 19, the last one in the metadata,"),
    ],
)
def test_what_stands_after_the_last_entry(entries: int, more: bytes | None, reported: str, tmp_path: Path) -> None:
    made = with_metadata_of(messages(1, 20), messages(1, entries), 1)
    if more is None:
        known = build_ledger_metadata(ledger_metadata(made.entries, NAME, CREATED_MS))
        records = ledger_records(known, made.entries)
        data = MapFileWriter(RecordCompression.BLOCK).files([*records, records[-1]])[0]
    else:
        data = made.data + more
    url = put_mapfiles(tmp_path / "source", made)
    put_file(tmp_path / "source" / made.folder / "data", data)
    (found,) = (one for one in verify(open_bucket(url)).findings if one.kind == "trailing-records")
    assert found.message.startswith(reported)
    assert "missing-entries" in damage_of(url)
    # Readers have what the metadata promises; a copy would hide the rest.
    assert open_bucket(url).topic(TOPIC).count() == 20
    run("offload", url, str(tmp_path / "target"), code=1)
