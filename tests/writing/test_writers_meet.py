"""Writers that meet: who writes, removes and copies what somebody else writes, removes and copies at the same time, unknown to them.

Whatever happens, a row is lost only to somebody who is told so.
"""

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import LedgerExistsError, LedgerfsError, StaleObjectError
from ledgerfs.formats.pulsar_blob.index import parse_index
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.fuse_mount.operations import MountedBucket, MountOptions
from ledgerfs.layouts.pulsar_blob.new_ledger import made_up_user_metadata
from ledgerfs.storage.folders.writes import LocalWrites
from ledgerfs.storage.s3.writes import S3Writes
from ledgerfs.writing.bucket_copy import CopyOutcome, copy_rows, rows_to_copy
from ledgerfs.writing.claims import IfExists
from ledgerfs.writing.imports import import_rows
from tests.support.commands import output, run
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.forked import can_be_forked
from tests.support.ledgers import Offload, offload, put_in_folder
from tests.support.s3 import S3Server, environment_of
from tests.support.s3_log import requests_of
from tests.support.writes import Place, folder_place, s3_place, when_listed

TOPIC = "persistent://public/default/orders"
FOLDER = "entries/public/default/orders"
PATH = f"{FOLDER}/7.entries"
OURS, THEIRS = ([frame(metadata(sequence_id=n), text) for n in range(9)] for text in (b"ours", b"theirs, longer"))
OUR_RECORDS, THEIR_RECORDS = offload(OURS).records, offload(THEIRS).records


@dataclass(frozen=True)
class NewPlace:
    """Makes empty buckets: folders, or on S3."""

    folder: Path
    s3: S3Server | None

    def __call__(self) -> Place:
        name = f"test-{uuid4()}"
        if self.s3 is None:
            return folder_place(self.folder / name)
        self.s3.make_bucket(name, {})
        return s3_place(self.s3, name)


@pytest.fixture(params=["file", "s3"])
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> NewPlace:
    return NewPlace(tmp_path, request.getfixturevalue("s3") if request.param == "s3" else None)


@pytest.fixture
def place(new_place: NewPlace) -> Place:
    return new_place()


class Views:
    """The bucket as several processes see it, each with a cache of its own; ``options`` are those of each file system."""

    def __init__(self, place: Place, folder: Path, **options: Any) -> None:
        self._place, self._folder, self._count, self._options = place, folder, 0, options

    def _cache(self) -> str:
        self._count += 1
        return str(self._folder / f"cache {self._count}")

    def bucket(self, **options: Any) -> Bucket:
        return open_bucket(self._place.url, self._place.options, cache_dir=self._cache(), **options)

    def fs(self, **options: Any) -> LedgerFileSystem:
        protocol, _, root = self._place.url.partition("://")
        return LedgerFileSystem(
            fo=root,
            target_protocol=protocol,
            target_options=self._place.options,
            cache_dir=self._cache(),
            **(self._options | options),
        )


@pytest.fixture
def views(place: Place, tmp_path: Path) -> Views:
    return Views(place, tmp_path)


@pytest.fixture
def before_index(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], object]]]:
    """What is done, once each, just before an index is put; by then its writer has looked at the bucket, and sees it no more."""
    actions: list[Callable[[], object]] = []
    for cls in (LocalWrites, S3Writes):

        def put(self: Any, key: str, *arguments: Any, put: Any = cls.put) -> Any:
            if key.endswith("-index") and actions:
                actions.pop(0)()
            return put(self, key, *arguments)

        monkeypatch.setattr(cls, "put", put)
    yield actions
    assert not actions, "no index was put"


class RowSource:
    """Rows to import."""

    schema = pa.schema([("value", pa.string())])

    def __init__(self, *values: str) -> None:
        self._values = list(values)
        self.rows = len(values)

    def batches(self) -> Iterator[pa.RecordBatch]:
        return iter([pa.record_batch({"value": self._values})])


def imported(bucket: Bucket, *values: str, topic: str = TOPIC, **options: Any) -> int:
    return import_rows(bucket, RowSource(*values), topic, **options).written.ledger.key.ledger_id


def values(place: Place, topic: str = TOPIC) -> list[bytes]:
    return pa.table(open_bucket(place.url, place.options).topic(topic).scan(["value"])).column("value").to_pylist()


def put_objects(place: Place, *made: Offload) -> None:
    """Put ledgers into the bucket as somebody else would."""
    for one in made:
        name = parse_index(one.index).metadata.managed_ledger
        for key, data in one.objects.items():
            role = "index" if key.endswith("-index") else "data"
            place.clean.raw_store.writes.put(key, data, {**made_up_user_metadata(name), "role": role})


def shown(place: Place) -> list[tuple[str, int, int]]:
    """Return topic, id and copy of each ledger that is there now."""
    return [(ref.topic, ref.ledger_id, ref.copy) for ref in open_bucket(place.url, place.options).catalog.refs()]


# Ids of our own


def rows_file(tmp_path: Path, count: int) -> list[Path]:
    """Return files of ten rows each."""
    made = [tmp_path / f"rows {number}.jsonl" for number in range(count)]
    for number, path in enumerate(made):
        path.write_text("".join(json.dumps({"value": f"{number}-{row}"}) + "\n" for row in range(10)))
    return made


def environment(place: Place, cache: Path) -> dict[str, str]:
    store = {} if place.s3 is None else environment_of(place.s3)
    return {**os.environ, **store, "LEDGERFS_CACHE_DIR": str(cache)}


def test_imports_of_several_processes_at_once_all_stay(place: Place, tmp_path: Path) -> None:
    files = rows_file(tmp_path, 3)
    env = environment(place, tmp_path / "cache")
    # What commands are forked from is started here, not in three threads.
    can_be_forked(env)
    with ThreadPoolExecutor(3) as pool:
        texts = pool.map(lambda path: output("import", str(path), place.url, TOPIC, "--json", env=env), files)
        reported = [json.loads(text) for text in texts]
    assert len({one["ledger_id"] for one in reported}) == 3
    assert sorted(values(place)) == sorted(f"{number}-{row}".encode() for number in range(3) for row in range(10))
    assert len(place.ledgers()) == 3


@pytest.mark.long
def test_ids_ascend_in_a_topic_also_when_the_clock_is_set_back(
    place: Place, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1_800_000_000.0, 1_800_000_000.0, 1_700_000_000.0, 0.0, 1e12]
    made, bucket = [], views.bucket()
    for number, now in enumerate(clock):
        with monkeypatch.context() as patch:
            patch.setattr("ledgerfs.writing.own_ids.time", SimpleNamespace(time=lambda now=now: now))
            made.append(imported(bucket, str(number)))
            bucket.refresh()
    assert made == sorted(set(made))
    assert all(2**52 <= one < 2**53 for one in made)
    assert values(place) == [b"%d" % number for number in range(len(clock))]
    # Of another topic nothing is known of the order; the time tells as it always does.
    with monkeypatch.context() as patch:
        patch.setattr("ledgerfs.writing.own_ids.time", SimpleNamespace(time=lambda: clock[0]))
        assert imported(views.bucket(), "other", topic="public/default/other") < made[-1]


# Ids that a user names


def by_import(views: Views) -> None:
    imported(views.bucket(), "ours", ledger_id=7)


def by_pipe(views: Views) -> None:
    views.fs().pipe_file(PATH, OUR_RECORDS)


def by_put(views: Views) -> None:
    file = views._folder / "7.entries"
    file.write_bytes(OUR_RECORDS)
    views.fs().put([str(file)], [PATH])


def by_open(views: Views) -> None:
    with views.fs().open(PATH, "wb") as out:
        out.write(OUR_RECORDS)


def by_transaction(views: Views) -> None:
    fs = views.fs()
    with fs.transaction:
        fs.pipe_file(PATH, OUR_RECORDS)


def by_mount(views: Views) -> None:
    mounted = MountedBucket(views.bucket(), MountOptions(is_writable=True))
    for end in range(2, 5):
        with suppress(FileExistsError):
            mounted.make_directory("/".join(PATH.split("/")[:end]))
    handle = mounted.create(f"/{PATH}", os.getpid())
    mounted.write(handle, OUR_RECORDS, 0, os.getpid())
    mounted.release(handle)


WAYS = [by_import, by_pipe, by_put, by_open, by_transaction, by_mount]


def test_who_publishes_later_gives_way(
    new_place: NewPlace, tmp_path_factory: pytest.TempPathFactory, before_index: list[Callable[[], object]]
) -> None:
    """A rival that comes between the look at the bucket and the index is never hidden, of whatever topic it is."""
    topics = ("orders", "other")
    # Of which topic a ledger is does not depend on the store: on S3, which takes its time, each way meets one of them.
    pairs = product(WAYS, topics) if new_place.s3 is None else zip(WAYS, topics * 3, strict=True)

    @for_each(("way", "topic"), pairs)
    def gives_way(way: Callable[[Views], None], topic: str) -> None:
        place = new_place()
        theirs = offload(THEIRS, 7, uuid=9, name=f"public/default/persistent/{topic}")
        before_index.append(lambda: put_objects(place, theirs))
        with pytest.raises(LedgerExistsError, match=f"already has ledger 7 of .*{topic}") as caught:
            way(Views(place, tmp_path_factory.mktemp("case")))
        assert not before_index
        assert theirs.uuid in str(caught.value)
        assert place.objects() == set(theirs.objects)
        assert place.uploads() == []
        assert place.ledgers() == [THEIR_RECORDS]

    gives_way()


@for_each("way", WAYS)
def test_what_is_removed_before_it_is_confirmed_is_no_success(
    way: Callable[[Views], None], new_place: NewPlace, case_path: Path
) -> None:
    place = new_place()
    views = Views(place, case_path)
    theirs = views.bucket()
    with pytest.MonkeyPatch.context() as patch:
        when_listed(patch, lambda: remove_all_of(place, theirs), is_before=True)
        with pytest.raises(StaleObjectError, match="removed or replaced"):
            way(views)
    assert place.objects() == set()


@for_each("rival", [THEIRS, OURS])
@for_each("way", [by_pipe, by_put, by_open, by_transaction])
def test_a_further_copy_hides_nothing_that_comes_meanwhile(
    way: Callable[[Views], None],
    rival: list[bytes],
    new_place: NewPlace,
    case_path: Path,
    before_index: list[Callable[[], object]],
) -> None:
    place = new_place()
    theirs = offload(rival, 7, uuid=9, name="public/default/persistent/orders")
    before_index.append(lambda: put_objects(place, theirs))
    views = Views(place, case_path, write_options={"if_exists": "new-copy"})
    if rival is OURS:
        way(views)
        assert place.ledgers() == [OUR_RECORDS] * 2
    else:
        with pytest.raises(LedgerExistsError, match="already has ledger 7"):
            way(views)
        assert place.objects() == set(theirs.objects)
    assert not before_index


def test_rows_that_are_imported_are_no_further_copy(
    place: Place, views: Views, before_index: list[Callable[[], object]]
) -> None:
    """Of the same number and size, they are others all the same; what is damaged they may stand beside."""
    before_index.append(lambda: imported(views.bucket(), "theirs", ledger_id=7))
    with pytest.raises(LedgerExistsError, match="already has ledger 7"):
        imported(views.bucket(), "ours  ", ledger_id=7, if_exists=IfExists.NEW_COPY)
    assert values(place) == [b"theirs"]
    with pytest.raises(LedgerExistsError, match="already has ledger 7"):
        imported(views.bucket(), "ours  ", ledger_id=7, if_exists=IfExists.NEW_COPY)
    data = next(key for key in place.objects() if not key.endswith("-index"))
    place.clean.raw_store.writes.delete(data)
    imported(views.bucket(), "ours  ", ledger_id=7, if_exists=IfExists.NEW_COPY)
    assert shown(place) == [(TOPIC, 7, 0)]


# Views that are not of today


def test_skip_looks_again_at_what_it_relied_on(place: Place, views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed between the listing and the look at the ledger itself: then it is written."""
    ours, theirs = views.fs(), views.bucket()
    ours.pipe_file(PATH, OUR_RECORDS)
    when_listed(monkeypatch, lambda: remove_all_of(place, theirs), at=1)
    ours.pipe_file(PATH, OUR_RECORDS, if_exists="skip")
    assert place.ledgers() == [OUR_RECORDS]


def remove_all_of(place: Place, bucket: Bucket) -> None:
    for key in sorted(place.objects(), reverse=True):
        bucket.raw_store.writes.delete(key)


def test_writes_list_the_bucket_once(s3: S3Server, s3_bucket: str, tmp_path: Path) -> None:
    """A ledger, or many of one call; a generated id of a known topic needs no listing."""
    place = s3_place(s3, s3_bucket)
    views = Views(place, tmp_path)
    data = {f"{FOLDER}/{number}.entries": OUR_RECORDS for number in range(5)}
    file = tmp_path / "8.entries"
    file.write_bytes(OUR_RECORDS)
    known = views.bucket()

    def opened() -> None:
        with views.fs().open(f"{FOLDER}/9.entries", "wb") as out:
            out.write(OUR_RECORDS)

    def transaction() -> None:
        fs = views.fs()
        with fs.transaction:
            fs.pipe({f"{FOLDER}/{number}.entries": OUR_RECORDS for number in (10, 11)})

    def taken() -> None:
        with pytest.raises(LedgerExistsError, match="already has ledger 1"):
            views.fs().pipe_file(f"{FOLDER}/1.entries", OUR_RECORDS)

    calls: dict[str, tuple[Callable[[], object], int]] = {
        "pipe": (lambda: views.fs().pipe(data), 1),
        "put": (lambda: views.fs().put(str(file), f"{FOLDER}/8.entries"), 1),
        "put of a list": (lambda: views.fs().put([str(file)], [f"{FOLDER}/12.entries"]), 1),
        "open": (opened, 1),
        "transaction": (transaction, 1),
        "all there": (lambda: views.fs().pipe(data, if_exists="skip"), 1),
        "one is new": (lambda: views.fs().pipe({**data, f"{FOLDER}/13.entries": OUR_RECORDS}, if_exists="skip"), 2),
        "a taken id": (taken, 1),
        "import": (lambda: imported(views.bucket(), "a", ledger_id=20), 1),
        "first of a name": (lambda: imported(known, "a"), 1),
        "of a known topic": (lambda: imported(known, "b"), 0),
        "of a partition": (lambda: imported(views.bucket(), "c", topic=f"{TOPIC}s-partition-3"), 0),
    }
    for name, (call, listings) in calls.items():
        with requests_of(s3_bucket) as seen:
            call()
        assert len([one for one in seen if one.startswith("GET ?")]) == listings, name
    assert sorted(ledger_id for _, ledger_id, _ in shown(place) if ledger_id < 2**52) == [*range(5), *range(8, 14), 20]
    assert len(place.ledgers()) == 15


def test_of_many_writes_of_a_call_only_those_go_that_met(
    place: Place, views: Views, before_index: list[Callable[[], object]]
) -> None:
    before_index.append(lambda: put_objects(place, offload(THEIRS, 8, uuid=9)))
    with pytest.raises(LedgerExistsError, match="already has ledger 8"):
        views.fs().pipe({f"{FOLDER}/{number}.entries": OUR_RECORDS for number in (7, 8, 9)})
    assert shown(place) == [(TOPIC, 7, 0), (TOPIC, 8, 0), (TOPIC, 9, 0)]
    assert sorted(place.ledgers()) == sorted([OUR_RECORDS, THEIR_RECORDS, OUR_RECORDS])


def test_a_call_that_fails_has_looked_at_what_it_wrote_before(
    place: Place, views: Views, before_index: list[Callable[[], object]]
) -> None:
    before_index.append(lambda: put_objects(place, offload(THEIRS, 7, uuid=9)))
    with pytest.raises(LedgerfsError, match="already has ledger 7"):
        views.fs().pipe({PATH: OUR_RECORDS, f"{FOLDER}/8.entries": b"no records at all"})
    assert place.ledgers() == [THEIR_RECORDS]


def test_one_call_does_not_write_one_id_twice(place: Place, views: Views) -> None:
    with pytest.raises(LedgerExistsError, match="the same call has already written another ledger 7"):
        views.fs().pipe({PATH: OUR_RECORDS, "entries/public/default/other/7.entries": OUR_RECORDS})
    assert shown(place) == [(TOPIC, 7, 0)]


# Removing


@for_each("what", ["path", "directory", "mount"])
def test_what_comes_while_others_are_removed_is_reported(what: str, new_place: NewPlace, case_path: Path) -> None:
    place = new_place()
    views = Views(place, case_path)
    put_objects(place, offload(OURS, 7, uuid=1))
    fs, mounted = views.fs(), MountedBucket(views.bucket(), MountOptions(is_writable=True))
    new = offload(THEIRS, 8 if what == "directory" else 7, uuid=2)
    removals: dict[str, Callable[[], None]] = {
        "path": lambda: fs.rm(PATH),
        "directory": lambda: fs.rm(FOLDER, recursive=True),
        "mount": lambda: mounted.remove(f"/{PATH}"),
    }
    with pytest.MonkeyPatch.context() as patch:
        for cls in (LocalWrites, S3Writes):

            def delete(self: Any, key: str, delete: Any = cls.delete) -> None:
                if not set(new.objects) & place.objects():
                    put_objects(place, new)
                delete(self, key)

            patch.setattr(cls, "delete", delete)
        with pytest.raises(
            LedgerExistsError, match=f"{new.ledger_id}.entries still exists: a ledger that another writer has added"
        ):
            removals[what]()
    assert place.ledgers() == [THEIR_RECORDS]
    if what == "mount":
        assert mounted.attributes(f"/{PATH}").size == len(THEIR_RECORDS)


# Bucket to bucket


@pytest.fixture
def source(tmp_path: Path) -> Place:
    made = folder_place(tmp_path / "source")
    put_objects(made, offload(OURS, 7, uuid=1), offload(OURS, 8, uuid=2))
    return made


@pytest.mark.parametrize("when", ["at once", "in the end"])
def test_what_is_removed_from_a_target_is_not_there_already(
    when: str, source: Place, place: Place, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, target, theirs = open_bucket(source.url), views.bucket(), views.bucket()
    rows = rows_to_copy(bucket.catalog, None, all_copies=True)
    assert {one.outcome for one in copy_rows(bucket, target, rows)} == {CopyOutcome.COPIED}
    is_late = when == "in the end"
    when_listed(
        monkeypatch,
        lambda: remove_all_of(place, theirs),
        at=2 if is_late else 1,
        by=lambda one: one is target,
        is_before=is_late,
    )
    assert {one.outcome for one in copy_rows(bucket, target, rows)} == {
        CopyOutcome.FAILED if is_late else CopyOutcome.COPIED
    }
    assert place.ledgers() == ([] if is_late else [OUR_RECORDS] * 2)


def test_a_source_is_listed_anew_and_what_vanishes_from_it_is_named(
    source: Place, place: Place, tmp_path: Path
) -> None:
    kept = {**environment(place, tmp_path / "ours"), "LEDGERFS_CATALOG_MAX_AGE": "3600"}
    run("topics", source.url, env=kept)
    put_objects(source, offload(THEIRS, 9, uuid=9))
    text = output("offload", source.url, place.url, "--json", env=kept)
    assert sorted(row["source_ledger_id"] for row in json.loads(text)) == [7, 8, 9]


def test_what_a_folder_cannot_show_of_one_id_is_its_owner(tmp_path: Path) -> None:
    """An index that cannot be read may be anybody's ledger; nothing that decides by ids takes its id."""
    folder = tmp_path / "bucket"
    folder.mkdir()
    made = offload(THEIRS, 7, uuid=9)
    put_in_folder(folder, made)
    (folder / f"{made.uuid}-ledger-7-index").write_bytes(b"no index")
    fs = LedgerFileSystem(fo=str(folder), target_protocol="file")
    with pytest.raises(LedgerExistsError, match="whose index cannot be read"):
        fs.pipe_file(PATH, OUR_RECORDS)
    # Broken for good, it is no reason to leave a whole one out.
    fs.pipe_file(PATH, OUR_RECORDS, if_exists="skip")
    assert fs.cat_file(PATH) == OUR_RECORDS
