"""Schemas beside a bucket: nothing that was saved is ever lost, and nothing that is there is overlooked."""

import json
import shutil
import threading
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest

from ledgerfs import open_bucket
from ledgerfs.errors import (
    AccessDeniedError,
    BucketNotFoundError,
    CorruptSchemaFileError,
    InvalidNameError,
    InvalidOptionError,
    UnsupportedFormatError,
)
from ledgerfs.formats.schemas.saved_schema import FOLDER, dump_schema, saved_name
from ledgerfs.formats.schemas.schema_info import BY_HAND, SchemaInfo, SchemaVersion
from ledgerfs.repair import plan_repair
from ledgerfs.schemas.saved_schemas import SavedSchemas, saved_schemas_at
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.opening import open_store
from ledgerfs.verification import verify
from ledgerfs.writing.copy_ledgers import copy_ledgers
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.ledgers import offload, put_in_folder
from tests.support.s3 import Fault, FaultProxy, S3Server
from tests.support.tries import without_pauses

TOPIC = "persistent://public/default/orders"
IN_FOLDER = f"{FOLDER}public/default/orders/"
OLD = SchemaVersion(0, SchemaInfo("AVRO", b'"int"'), 1_000, source="http://a", saved_ms=5)
NEW = SchemaVersion(0, SchemaInfo("AVRO", b'"long"'), 2_000_000, source="http://a", saved_ms=6)
OTHERS = [
    SchemaVersion(n, SchemaInfo("JSON", b'"string"', {"n": str(n)}), n, source="http://a", saved_ms=7)
    for n in range(1, 5)
]


@pytest.fixture(params=["folder", "s3", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path, s3: S3Server) -> RawStore:
    if request.param == "folder":
        (tmp_path / "bucket").mkdir()
        return open_store(fsspec.filesystem("file"), f"{tmp_path}/bucket")
    if request.param == "memory":
        filesystem = fsspec.filesystem("memory")
        filesystem.makedirs(path := f"/{uuid.uuid4()}")
        return open_store(filesystem, path)
    return open_store(fsspec.filesystem("s3", **s3.options), request.getfixturevalue("s3_bucket"))


def test_what_is_added_is_there_for_its_partitions_too(store: RawStore) -> None:
    saved = SavedSchemas(store)
    assert saved.is_empty()
    assert saved.versions(TOPIC) == ()
    assert saved.all_versions() == {}
    assert saved.add(TOPIC, [OLD, *OTHERS]) == 5
    assert not saved.is_empty()
    for name in (TOPIC, "public/default/orders", f"{TOPIC}-partition-3", "public/default/persistent/orders"):
        assert saved.versions(name) == (OLD, *OTHERS)
    assert saved.version(TOPIC, 2) == (OTHERS[1],)
    assert saved.version(TOPIC, 9) == ()
    assert saved.versions("public/default/order") == saved.versions("public/default/orders2") == ()
    assert saved.all_versions() == {TOPIC: (OLD, *OTHERS)}
    assert saved.source == f"{store.url}/{FOLDER}".rstrip("/")


def test_saving_again_adds_and_never_forgets(store: RawStore) -> None:
    saved = SavedSchemas(store)
    saved.add(TOPIC, [OLD, OTHERS[0]])
    # The cluster has other versions by now, and one number means another schema.
    assert (
        saved.add(TOPIC, [replace(NEW, saved_ms=9), replace(OTHERS[0], saved_ms=9, source="http://b"), OTHERS[1]]) == 2
    )
    assert saved.versions(TOPIC) == (OLD, replace(NEW, saved_ms=9), *OTHERS[:2])
    assert saved.add(TOPIC, [OLD, NEW, *OTHERS[:2]]) == 0


def test_each_word_of_a_user_is_kept(store: RawStore) -> None:
    saved = SavedSchemas(store)
    words = [replace(OLD, source=BY_HAND, saved_ms=time) for time in (1, 2, 3)]
    for word in words:
        assert saved.add(TOPIC, [word]) == 1
    assert saved.versions(TOPIC) == tuple(words)


# Listings of fsspec's memory fail while another thread writes there.
@pytest.mark.parametrize("store", ["folder", "s3"], indirect=True)
def test_two_that_save_at_once_lose_nothing_of_each_other(store: RawStore) -> None:
    saved, start, failed = SavedSchemas(store), threading.Barrier(4), []
    shares = [[OLD, OTHERS[0]], [OLD, OTHERS[1]], [NEW, OTHERS[2]], [OLD, NEW, OTHERS[3]]]

    def add(versions: list[SchemaVersion]) -> None:
        start.wait()
        try:
            saved.add(TOPIC, versions)
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=add, args=(share,)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert saved.versions(TOPIC) == (OLD, NEW, *OTHERS)


def test_a_saver_that_is_killed_leaves_whole_versions(store: RawStore) -> None:
    saved = SavedSchemas(store)

    def versions() -> Any:
        yield OLD
        yield OTHERS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        saved.add(TOPIC, versions())
    assert saved.versions(TOPIC) == (OLD, OTHERS[0])
    assert saved.add(TOPIC, [OLD, *OTHERS]) == 3


@for_each(
    ("name", "data", "error"),
    [
        (saved_name(TOPIC, OLD), dump_schema(TOPIC, OLD)[:100], CorruptSchemaFileError),
        (saved_name(TOPIC, OLD), b"", CorruptSchemaFileError),
        (saved_name(TOPIC, NEW), dump_schema(TOPIC, OLD), CorruptSchemaFileError),
        (saved_name("persistent://a/b/c", OLD), dump_schema("persistent://a/b/c", OLD), CorruptSchemaFileError),
        ("notes.txt", b"hello", CorruptSchemaFileError),
        ("orders.avsc", b'"int"', CorruptSchemaFileError),
        (saved_name(TOPIC, OLD), json.dumps({**json.loads(dump_schema(TOPIC, OLD)), "format_version": 9}).encode(), UnsupportedFormatError),
    ],
)  # fmt: skip
def test_what_is_damaged_or_foreign_is_an_error_and_not_no_schema(
    store: RawStore, name: str, data: bytes, error: type[Exception]
) -> None:
    saved = SavedSchemas(store)
    saved.add(TOPIC, OTHERS)
    store.writes.put(IN_FOLDER + name, data, {})
    for ask in (saved.versions, lambda _: saved.all_versions(), lambda topic: saved.add(topic, [])):
        with pytest.raises(error) as caught:
            ask(TOPIC)
        assert caught.value.key == IN_FOLDER + name
    store.writes.delete(IN_FOLDER + name)


@for_each(
    "odd",
    [
        replace(OLD, version=2**63),
        replace(OLD, version=10**19),
        replace(OLD, version=-1),
        replace(OLD, version=-2, source=BY_HAND),
        replace(OLD, timestamp_ms=2**64),
        replace(OLD, schema=SchemaInfo("AVRO", b"x", {"n": 1})),  # type: ignore[dict-item]
    ],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path: Path, odd: SchemaVersion) -> None:
    saved = saved_schemas_at(str(tmp_path))
    with pytest.raises(InvalidOptionError):
        saved.add(TOPIC, [odd])
    assert list(tmp_path.iterdir()) == []


def test_hidden_files_are_not_ours(tmp_path: Path) -> None:
    saved = saved_schemas_at(str(tmp_path))
    saved.add(TOPIC, [OLD])
    (tmp_path / "public/default/orders/.DS_Store").write_bytes(b"x")
    assert saved.all_versions() == {TOPIC: (OLD,)}


def test_what_is_too_large_is_neither_read_nor_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = saved_schemas_at(str(tmp_path))
    monkeypatch.setattr("ledgerfs.schemas.saved_schemas.MAX_SAVED_BYTES", 50)
    with pytest.raises(CorruptSchemaFileError, match="a schema has at most"):
        saved.add(TOPIC, [OLD])
    monkeypatch.setattr("ledgerfs.formats.schemas.saved_schema.MAX_SAVED_BYTES", 50)
    with pytest.raises(InvalidOptionError, match="a schema has at most"):
        saved.add(TOPIC, [NEW])
    assert len(list(tmp_path.rglob("*.json"))) == 1


def test_places_of_their_own(tmp_path: Path, s3: S3Server, s3_bucket: str) -> None:
    for url, options in (
        (str(tmp_path / "new"), {}),
        (f"s3://{s3_bucket}/some/where", s3.options),
        (f"memory://{uuid.uuid4()}", {}),
    ):
        saved = saved_schemas_at(url, options)
        saved.make_place()
        assert saved.add(TOPIC, [OLD, NEW]) == 2
        assert saved.add("persistent://t/c/n/a/b", [OLD]) == 1
        again = saved_schemas_at(url, options)
        assert again.all_versions() == {TOPIC: (OLD, NEW), "persistent://t/c/n/a/b": (OLD,)}
        assert again.versions(TOPIC) == (OLD, NEW)
    with pytest.raises(BucketNotFoundError):
        saved_schemas_at(str(tmp_path / "no" / "where")).make_place()
    with pytest.raises(BucketNotFoundError):
        saved_schemas_at(str(tmp_path / "nowhere")).all_versions()


def test_what_has_no_schemas_is_no_topic(tmp_path: Path) -> None:
    for name in ("", "_other/b/c", "non-persistent://a/b/c", "some ledger/with/persistent/%zz"):
        with pytest.raises(InvalidNameError):
            saved_schemas_at(str(tmp_path)).versions(name)


def test_links_are_not_followed_out_of_the_bucket(tmp_path: Path) -> None:
    """Somebody else may write to the folder of a bucket."""
    (tmp_path / "bucket").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "bucket" / "_ledgerfs").symlink_to(tmp_path / "elsewhere")
    saved = SavedSchemas(open_store(fsspec.filesystem("file"), f"{tmp_path}/bucket"))
    with pytest.raises(AccessDeniedError):
        saved.add(TOPIC, [OLD])
    assert list((tmp_path / "elsewhere").iterdir()) == []


@for_each("kind", ["reset", "done-reset", "done-503"])
def test_an_answer_that_is_lost_loses_no_schema(
    s3: S3Server, s3_bucket: str, proxy: FaultProxy, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_pauses(monkeypatch)
    proxy.faults = [fault := Fault(kind, times=2, matches=lambda method, *_: method == "PUT")]
    saved = saved_schemas_at(f"s3://{s3_bucket}/{kind}", proxy.options)
    assert saved.add(TOPIC, [OLD, NEW]) == 2
    assert saved.versions(TOPIC) == (OLD, NEW)
    assert fault.times == 0


@for_each("layout", ["auto", "pulsar_blob", "mapfile"])
def test_they_are_no_foreign_keys_no_damage_and_no_ledgers(tmp_path: Path, layout: str) -> None:
    folder = tmp_path / layout
    folder.mkdir()
    url = put_in_folder(folder, offload([b"x", b"y"]))
    before = verify(open_bucket(url, layout=layout))
    SavedSchemas(open_bucket(url).raw_store).add(TOPIC, [OLD, NEW, *OTHERS])
    bucket = open_bucket(url, layout=layout)
    assert verify(bucket) == before
    assert open_bucket(url).catalog.others.counts == {}
    # An empty folder that a saver left is nothing either.
    (folder / IN_FOLDER.replace("orders", "other")).mkdir()
    bucket.refresh()
    assert verify(bucket) == before


def test_what_others_put_there_is_still_named(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    url = put_in_folder(tmp_path / "bucket", offload([b"x"]))
    SavedSchemas(open_bucket(url).raw_store).add(TOPIC, [OLD])
    (tmp_path / "bucket" / "_ledgerfs" / "notes.txt").write_text("x")
    (tmp_path / "bucket" / FOLDER / "more.txt").write_text("x")
    others = open_bucket(url).catalog.others
    assert sorted(others.names["foreign"]) == ["_ledgerfs/notes.txt", "_ledgerfs/schemas/more.txt"]


def test_ledgers_in_folders_of_that_name_are_still_read(tmp_path: Path, golden_mapfiles: Path) -> None:
    """A tenant may be called so: its ledgers must not vanish."""
    place = tmp_path / "bucket" / "_ledgerfs" / "schemas"
    shutil.copytree(golden_mapfiles / "bucket", place)
    SavedSchemas(open_bucket(str(tmp_path / "bucket")).raw_store).add(TOPIC, [OLD])
    assert len(open_bucket(str(tmp_path / "bucket")).catalog.ledgers) == len(
        open_bucket(str(golden_mapfiles / "bucket")).catalog.ledgers
    )


def test_copies_bring_them_and_repairs_leave_them_alone(s3: S3Server, s3_bucket: str, tmp_path: Path) -> None:
    store = open_store(fsspec.filesystem("s3", **s3.options), s3_bucket)
    for key, data in offload([b"x", b"y"]).objects.items():
        store.writes.put(key, data, {})
    saved = SavedSchemas(store)
    saved.add(TOPIC, [OLD, NEW])
    bucket = open_bucket(f"s3://{s3_bucket}", s3.options)
    assert bucket.catalog.others.counts == {}
    assert "_ledgerfs" not in str(plan_repair(bucket).items)
    (tmp_path / "target").mkdir()
    target = open_bucket(str(tmp_path / "target"))
    assert copy_ledgers(bucket, target).schemas == 2
    assert SavedSchemas(target.raw_store).versions(TOPIC) == saved.versions(TOPIC) == (OLD, NEW)


@pytest.mark.long
def test_values_of_a_copied_bucket_are_read_by_the_copied_schemas(s3: S3Server, s3_bucket: str, tmp_path: Path) -> None:
    named = metadata()
    named.schema_version = bytes(8)
    (tmp_path / "bucket").mkdir()
    bucket = open_bucket(put_in_folder(tmp_path / "bucket", offload([frame(named, (7).to_bytes(8, "big"))])))
    saved = SavedSchemas(bucket.raw_store)
    saved.add(TOPIC, [SchemaVersion(0, SchemaInfo("INT64"), 1_000, source="http://a", saved_ms=5)])
    copied = open_bucket(f"s3://{s3_bucket}", s3.options)
    copy_ledgers(bucket, copied)
    assert SavedSchemas(copied.raw_store).all_versions() == saved.all_versions() != {}
    assert copied.topic(TOPIC).scan(["value"], values="typed").to_arrow()["value"].to_pylist() == [7]
    # What is copied again, or saved there as at a place of its own, is the same objects.
    there = saved_schemas_at(f"s3://{s3_bucket}/{FOLDER}", s3.options)
    there.make_place()
    assert there.add(TOPIC, saved.versions(TOPIC)) == 0
    assert there.add(TOPIC, [NEW]) == 1
    assert len(copied.topic(TOPIC).schema_versions()) == 2
