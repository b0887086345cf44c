"""What lies in a bucket besides whole MapFiles, where ledgers lie, and what changes while somebody looks."""

import shutil
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.catalog.ledger_ref import CatalogState
from ledgerfs.catalog.missing_ledgers import GapKind
from ledgerfs.errors import (
    CorruptLedgerError,
    MissingLedgerError,
    NotFoundError,
    UnplacedLedgersWarning,
)
from ledgerfs.formats.mapfile.header import RecordCompression
from ledgerfs.layouts.mapfile import layout as mapfile_layout
from ledgerfs.repair.plan import plan_repair
from ledgerfs.storage.folders.store import LocalStore
from ledgerfs.storage.objects import ObjectStat
from ledgerfs.verification import verify
from ledgerfs.writing.copy_ledgers import copy_ledgers
from tests.support.ledgers import CREATED_MS, NAME, offload, put_in_folder
from tests.support.mapfile_buckets import LONG_AGO, mapfile, messages, put_file, put_mapfiles
from tests.support.mapfiles import MapFileWriter
from tests.support.s3 import S3Server

TOPIC = "persistent://public/default/orders"
V1 = "public/cluster-a/default/persistent/orders"
PAYMENTS = "public/default/persistent/payments"


def kinds_of(url: str, **options: Any) -> list[str]:
    return [one.kind for one in verify(open_bucket(url, **options)).findings if one.severity.value == "damage"]


def values(url: str, **options: Any) -> list[bytes]:
    return open_bucket(url).topic(TOPIC).scan(**options).to_arrow()["value"].to_pylist()


@pytest.mark.parametrize("left", ["nothing", "checksum", "index", "empty data", "header", "no metadata", "of another"])
def test_what_a_crash_leaves_is_damage_by_name(left: str, tmp_path: Path) -> None:
    good, partial = mapfile(messages(1, 5), 1), mapfile(messages(2, 5), 2)
    url = put_mapfiles(tmp_path, good)
    folder = tmp_path / partial.folder
    if left == "nothing":
        folder.mkdir()
    elif left == "checksum":
        put_file(folder / ".data.crc", b"crc\0")
    elif left == "index":
        put_file(folder / "index", partial.index)
    elif left == "of another":
        put_mapfiles(tmp_path, mapfile(partial.entries, 2, reported="public/default/persistent/payments"))
    else:
        put_file(
            folder / "data", {"empty data": b"", "header": partial.data[:138], "no metadata": partial.data[:150]}[left]
        )
    with pytest.raises(MissingLedgerError, match="ledger 2"):
        values(url)
    assert len(values(url, on_corrupt="skip")) == 5
    (missing,) = open_bucket(url).catalog.missing_of(NAME)
    assert missing.key.startswith(partial.folder)
    assert (missing.kind is GapKind.DATA_LOST) == (left == "index")
    if left in {"nothing", "checksum"}:
        assert missing.kind is GapKind.NOTHING_LEFT
        assert (missing.why, missing.key) == ("both its data and its index are missing", partial.folder)
    assert kinds_of(url) == ["partial-ledger"]
    repairs = plan_repair(open_bucket(url)).items
    assert [(one.kind, one.action_name) for one in repairs] == [("partial-ledger", "nothing")]
    # A whole copy of it makes up for that if the metadata tells that it is one, or no byte is there that could be of another;
    # not for the topic that the metadata is of.
    put_mapfiles(tmp_path, mapfile(partial.entries, 2, uuid=77))
    is_made_up_for = left in {"nothing", "empty data", "of another"}
    assert len(values(url, on_corrupt="skip")) == 10
    assert bool(open_bucket(url).topic(TOPIC).missing) != is_made_up_for
    assert kinds_of(url) == ([] if left in {"nothing", "empty data"} else ["partial-ledger"])


def test_a_ledger_that_was_never_finished(tmp_path: Path) -> None:
    made = mapfile(messages(1, 20), last_entry=29)
    url = put_mapfiles(tmp_path, made)
    (ref,) = open_bucket(url).catalog.refs()
    assert ref.state is CatalogState.DAMAGED
    with pytest.raises(CorruptLedgerError, match="the data ends before entry 20"):
        values(url)
    assert len(values(url, on_corrupt="skip")) == 20
    assert kinds_of(url) == ["missing-entries", "damaged-records"]
    # Young, it may be under way: nobody takes it for a ledger yet, and readers are told.
    put_mapfiles(tmp_path, mapfile(messages(2, 5), 2))
    put_mapfiles(tmp_path, made, at=time.time() - 30)
    bucket = open_bucket(url)
    assert [one.ledger_id for one in bucket.catalog.refs()] == [2]
    with pytest.warns(UnplacedLedgersWarning, match="still being uploaded"):
        assert bucket.topic(TOPIC).scan().to_arrow().num_rows == 5
    # Nothing is kept of that: when its writer has died, it is damage, when it was finished, a ledger.
    put_mapfiles(tmp_path, made)
    with pytest.raises(CorruptLedgerError):
        values(url)
    put_mapfiles(tmp_path, mapfile(messages(1, 30)), at=None)
    assert len(values(url)) == 35


def test_a_file_that_grows_between_listing_and_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = mapfile(messages(1, 30))
    url = put_mapfiles(tmp_path, mapfile(messages(2, 5), 2))
    put_file(tmp_path / made.folder / "data", made.data[:200], None)
    listed = LocalStore.list_folder

    def growing(self: LocalStore, folder: str) -> Any:
        pages = list(listed(self, folder))
        put_file(tmp_path / made.folder / "data", made.data, None)
        return iter(pages)

    monkeypatch.setattr(LocalStore, "list_folder", growing)
    with pytest.warns(UnplacedLedgersWarning, match="still being uploaded"):
        assert len(values(url)) == 5
    monkeypatch.undo()
    put_mapfiles(tmp_path, made)
    assert len(values(url)) == 35


def test_a_folder_that_is_deleted_between_listing_and_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = mapfile(messages(1, 30))
    url = put_mapfiles(tmp_path, made, mapfile(messages(2, 5), 2))
    bucket = open_bucket(url)
    reader = bucket.ledger(1)
    shutil.rmtree(tmp_path / made.folder)
    with pytest.raises(NotFoundError):
        reader.read(0, 3)
    put_mapfiles(tmp_path, made, at=LONG_AGO + 9)
    listed = LocalStore.list_folder

    def deleting(self: LocalStore, folder: str) -> Any:
        pages = list(listed(self, folder))
        shutil.rmtree(tmp_path / made.folder, ignore_errors=True)
        return iter(pages)

    monkeypatch.setattr(LocalStore, "list_folder", deleting)
    assert len(values(url)) == 5
    assert kinds_of(url) == []

    def late(self: LocalStore, folder: str) -> Any:
        """See of a deletion only the index that is still there."""
        pages = list(listed(self, folder))
        yield from pages
        yield [ObjectStat(f"{made.folder}/index", 100, 1, "1")]

    monkeypatch.setattr(LocalStore, "list_folder", late)
    assert len(values(url)) == 5


def test_names_begin_where_the_metadata_says(tmp_path: Path) -> None:
    for number, (base, name) in enumerate(product(["", "pulsar", "a/b"], [NAME, V1])):
        root = tmp_path / str(number)
        made = mapfile(messages(1, 5), 1, name=name)
        url = put_mapfiles(root, made, base=base)
        bucket = open_bucket(url)
        assert [one.managed_ledger for one in bucket.topics()] == [name], base
        assert bucket.catalog.places[-1] == (f"{base}/" if base else "")
        assert len(next(iter(bucket.catalog.refs())).objects) == 2, (base, name)
        # A partial one beside it is of the same topic, though nothing but its path tells.
        put_file(root / base / name / f"2-{made.uuid}" / "data", b"")
        assert [one.ledger_id for one in open_bucket(url).catalog.missing_of(name)] == [2], (base, name)


def test_two_layouts_in_one_bucket(tmp_path: Path) -> None:
    """Objects of S3, and a filesystem offload below a prefix; a ledger in both, and a topic with ledgers of both."""
    entries = {ledger_id: messages(ledger_id, 10) for ledger_id in (1, 2, 3)}
    put_in_folder(tmp_path, offload(entries[1], 1, uuid=101), offload(entries[2], 2, uuid=102))
    url = put_mapfiles(tmp_path, mapfile(entries[2], 2, uuid=202), mapfile(entries[3], 3, uuid=203), base="pulsar")
    bucket = open_bucket(url)
    table = bucket.topic(TOPIC).scan().to_arrow()
    assert table["ledger_id"].to_pylist() == [1] * 10 + [2] * 10 + [3] * 10
    assert {ref.layout for ref in bucket.catalog.refs()} == {0, 1}
    assert [ref.copy for ref in bucket.catalog.copies_of(NAME, 2)] == [0, 1]
    report = verify(bucket)
    assert (report.is_damaged, [one.kind for one in report.findings]) == (False, ["extra-copy", "no-user-metadata"])
    # Copies with the same totals and other contents are told apart by their records, whatever their layouts.
    other = messages(4, 10)
    assert [len(entry) for entry in other] == [len(entry) for entry in entries[2]]
    put_mapfiles(tmp_path, mapfile(other, 2, uuid=202), base="pulsar")
    assert "contradicting-copy" in kinds_of(url)
    # And those with other totals already by the catalog.
    put_mapfiles(tmp_path, mapfile(entries[2][:7], 2, uuid=202), base="pulsar")
    with pytest.raises(MissingLedgerError, match="different entries"):
        values(url)
    # Each layout alone.
    one, other_one = (open_bucket(url, layout=layout) for layout in ("pulsar_blob", "mapfile"))
    assert [ref.ledger_id for ref in one.catalog.refs()] == [1, 2]
    assert [ref.ledger_id for ref in other_one.catalog.refs()] == [2, 3]


UNCOMPRESSED = MapFileWriter(compression=RecordCompression.NONE)


@pytest.mark.long
def test_whole_ledgers_beside_those_that_are_being_written(tmp_path: Path, s3: S3Server, s3_bucket: str) -> None:
    """Each is another attempt at the same ledger, or one of another cluster, whose entries nobody reads: then every reader is told.

    The metadata tells which, also in a first block that is cut.
    """
    cases = dict(enumerate(product(["blob", "mapfile"], [True, False], RecordCompression), 101))
    wholes: dict[int, int] = {}
    for number, (whole, is_same, compression) in cases.items():
        name = f"public/default/persistent/orders{number}"
        written = mapfile(messages(8, 300), number, name=name, writer=MapFileWriter(compression=compression))
        if is_same:
            entries, created_ms = list(written.entries), CREATED_MS
        else:
            entries, created_ms = [written.entries[0]] * 2, CREATED_MS + 86_400_000
        of_whole = {"uuid": 1000 + number, "name": name, "created_ms": created_ms}
        other = offload(entries, number, **of_whole) if whole == "blob" else mapfile(entries, number, **of_whole)
        another = mapfile(messages(1, 3), number - 100, name=name)
        half = {f"{written.folder}/data": written.data[: len(written.data) // 2], f"{written.folder}/index": b""}
        assert written.uuid != other.uuid
        for key, data in {**other.objects, **another.objects, **half}.items():
            s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data)
        wholes[number] = len(entries)
    bucket = open_bucket(f"s3://{s3_bucket}", s3.options)
    for number, case in cases.items():
        with warnings.catch_warnings(record=True) as reported:
            warnings.simplefilter("always")
            assert bucket.topic(f"public/default/orders{number}").count() == wholes[number] + 3, case
        assert {one.category for one in reported} == (set() if case[1] else {UnplacedLedgersWarning}), case
    (tmp_path / "to").mkdir()
    report = copy_ledgers(bucket, open_bucket(tmp_path / "to"), allow_incomplete=True)
    assert [one.ledger_id for one in report.missing] == [number for number, case in cases.items() if not case[1]]
    assert report.copied == 2 * len(cases)
    findings = [one for one in verify(bucket).findings if one.kind == "partial-ledger"]
    assert {one.ledger_id: one.severity.value for one in findings} == {
        number: "remark" if is_same else "damage" for number, (_, is_same, _) in cases.items()
    }
    assert len(findings) == len(cases)


def test_the_metadata_of_what_is_being_written_names_its_topic(tmp_path: Path) -> None:
    """It may be in the folder of another one: both are told."""
    url = put_mapfiles(tmp_path, mapfile(messages(1, 5), 1), mapfile(messages(2, 5), 2, name=PAYMENTS))
    written = mapfile(messages(8, 300), 8, writer=UNCOMPRESSED, reported=PAYMENTS)
    put_file(tmp_path / written.folder / "data", written.data[:6000], None)
    for topic in (TOPIC, "public/default/payments"):
        with pytest.warns(UnplacedLedgersWarning, match="still being uploaded"):
            assert open_bucket(url).topic(topic).count() == 5


@pytest.mark.parametrize("base", ["", "x/y/"])
def test_nameless_ledgers_are_of_the_topic_whose_folder_they_are_in(base: str, tmp_path: Path) -> None:
    """Also when they were listed before the one whose metadata tells where its name begins, or lie below a base with other topics."""
    nameless = mapfile(messages(1, 1), 1, name=V1, reported=None)
    url = put_mapfiles(tmp_path / "tier", nameless, mapfile(messages(9, 2), 9, name=NAME), base=base)
    first = open_bucket(url, cache_dir=str(tmp_path / "cache"))
    assert sum(one.ledgers for one in first.topics()) == 2
    put_mapfiles(tmp_path / "tier", mapfile(messages(2, 2), 2, name=V1), base=base)
    for _ in range(2):
        bucket = open_bucket(url, cache_dir=str(tmp_path / "cache"))
        assert {one.managed_ledger: one.ledgers for one in bucket.topics()} == {NAME: 1, V1: 2}
        assert bucket.topic("persistent://public/cluster-a/default/orders").count() == 3
    # A partial one beside them, too.
    put_file(tmp_path / "tier" / base / V1 / f"3-{nameless.uuid}" / "data", b"")
    assert [one.ledger_id for one in open_bucket(url).catalog.missing_of(V1)] == [3]
    assert "partial-ledger" in kinds_of(url)
    # Where metadata in one folder has two names, the longer one counts, in whatever order they were listed.
    put_mapfiles(tmp_path / "tier", mapfile(messages(4, 2), 4, name=V1, reported=V1.removeprefix("public/")), base=base)
    assert {one.managed_ledger: one.ledgers for one in open_bucket(url).topics()}[V1] == 2


def test_catalogs_are_read_some_folders_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapfile_layout, "_CHUNK", 3)
    url = put_mapfiles(tmp_path, *(mapfile(messages(i, 2), i) for i in range(1, 11)))
    reported: list[tuple[str, int, int | None]] = []
    bucket = open_bucket(url)
    bucket.load_catalog(lambda *one: reported.append(one))
    assert [one[1:] for one in reported if one[0] == "reading ledgers"] == [(i, 10) for i in range(1, 11)]
    assert len(values(url)) == 20
    assert put_mapfiles(tmp_path, mapfile(messages(3, 2), 3), at=LONG_AGO) == url
