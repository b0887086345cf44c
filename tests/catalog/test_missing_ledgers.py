"""What a bucket knows of and cannot deliver: every read of the topic says so, and none returns half of it as if it were all."""

import errno
import json
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog import missing_ledgers
from ledgerfs.catalog.missing_ledgers import GapKind
from ledgerfs.errors import (
    LedgerfsError,
    MissingLedgerError,
    NotFoundError,
    ObjectNotFoundError,
    UnplacedLedgersWarning,
)
from ledgerfs.export.export import export_topic
from ledgerfs.formats.pulsar_blob.user_metadata import GROUP_KEY
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.layouts.pulsar_blob.fragments import fragments_of
from ledgerfs.repair import plan_repair
from ledgerfs.scan.report import ScanReport
from ledgerfs.verification import Severity, verify
from ledgerfs.vfs.tree import tree_of
from tests.support.commands import run as run_process
from tests.support.invoked import Done, run
from tests.support.lacking import (
    MESSAGES,
    OTHER,
    OTHER_NAME,
    TOPIC,
    LossyBucket,
    key_of,
    ledger,
    lossy_folder,
    lossy_s3,
)
from tests.support.ledgers import CREATED_MS, Offload
from tests.support.s3 import S3Server
from tests.support.stores import LateStore

VIEWS = {"entries": "entries", "jsonl": "jsonl", "arrow": "arrow", "parquet": "parquet", "info": "json"}
DIRECTORY = "public/default/orders"
FIRST, SECOND, THIRD = ledger(1), ledger(2), ledger(3)
LATER_MS = CREATED_MS + 3_600_000


@pytest.fixture(params=["folder", "s3"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> LossyBucket:
    if request.param == "folder":
        return lossy_folder(tmp_path / "bucket")
    return lossy_s3(request.getfixturevalue("s3"), request.getfixturevalue("s3_bucket"))


@pytest.fixture
def half(bucket: LossyBucket) -> LossyBucket:
    """Two ledgers of one topic, of the second only its index."""
    bucket.put(FIRST)
    bucket.put(SECOND)
    bucket.lose(key_of(SECOND))
    return bucket


@pytest.fixture
def s3_place(s3: S3Server, s3_bucket: str) -> LossyBucket:
    return lossy_s3(s3, s3_bucket)


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written just now is old."""
    monkeypatch.setattr(missing_ledgers, "UPLOAD_MS", -missing_ledgers.CLOCKS_MS)


@pytest.fixture
def quiet() -> Iterator[None]:
    """No warning is to be given."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnplacedLedgersWarning)
        yield


def filesystem(bucket: LossyBucket) -> LedgerFileSystem:
    protocol, _, root = bucket.url.partition("://")
    return LedgerFileSystem(fo=root, target_protocol=protocol, target_options=bucket.options)


def run_on(bucket: LossyBucket, *arguments: str, code: int = 0) -> Done:
    """Run a command with the options that the bucket needs."""
    options = [word for name, value in bucket.options.items() for word in ("-o", f"{name}={value}")]
    return run(*arguments, *options, code=code)


def unplaced_warnings(call: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as reported:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in reported if one.category is UnplacedLedgersWarning]


def test_half_a_topic_is_an_error_of_every_read(half: LossyBucket, tmp_path: Path, quiet: None) -> None:
    topic = half.open().topic(TOPIC)
    (missing,) = topic.missing
    assert (missing.ledger_id, missing.entries, missing.key) == (2, MESSAGES, key_of(SECOND, "-index"))
    assert missing.bytes == len(SECOND.records) - 12 * MESSAGES
    for read in (
        lambda: next(iter(topic.scan())),
        lambda: topic.scan().to_arrow(),
        lambda: topic.scan().to_pandas(),
        lambda: pa.table(topic.scan()),
        topic.count,
        lambda: topic.count(end_time="2010-01-02"),
    ):
        with pytest.raises((MissingLedgerError, OSError, pa.ArrowException), match="data object is missing") as caught:
            read()
        if isinstance(caught.value, LedgerfsError):
            assert caught.value.errno == errno.EIO
            assert "ledgerfs verify" in str(caught.value)
            assert 'on_corrupt="skip"' in str(caught.value)
    with pytest.raises(MissingLedgerError):
        export_topic(topic, tmp_path / "out", "jsonl")
    assert not (tmp_path / "out").exists()


def test_the_rest_is_read_when_asked_for(half: LossyBucket, tmp_path: Path) -> None:
    topic = half.open().topic(TOPIC)
    scan = topic.scan(on_corrupt="skip")
    report = ScanReport()
    assert scan.to_arrow(report).num_rows == MESSAGES
    assert [one.ledger_id for one in scan.missing] == [2]
    assert not report.is_final
    assert topic.count(on_corrupt="skip") == MESSAGES
    report = export_topic(topic, tmp_path / "out", "jsonl", on_corrupt="skip")
    assert (report.rows, [one.ledger_id for one in report.missing]) == (MESSAGES, [2])
    half.put(SECOND)
    report = export_topic(half.open().topic(TOPIC), tmp_path / "out", "jsonl", on_corrupt="skip")
    assert (report.missing, {path.name for path in (tmp_path / "out").glob("*.jsonl")}) == ((), {"1.jsonl", "2.jsonl"})


def test_one_message_is_found_unless_its_own_ledger_is_missing(half: LossyBucket) -> None:
    topic = half.open().topic(TOPIC)
    assert topic.message("1:5").value == b"1:5"
    with pytest.raises(MissingLedgerError, match="ledger 2"):
        topic.message("2:5")
    with pytest.raises(NotFoundError, match="no such ledger"):
        topic.message("7:5")
    with pytest.raises(MissingLedgerError):
        half.open().ledger(2)


def test_a_missing_ledger_is_a_file_that_cannot_be_opened(half: LossyBucket, tmp_path: Path) -> None:
    fs = filesystem(half)
    for view, suffix in VIEWS.items():
        folder = f"{view}/{DIRECTORY}"
        assert fs.ls(folder, detail=False) == [f"{folder}/1.{suffix}", f"{folder}/2.{suffix}"]
        assert fs.info(f"{folder}/2.{suffix}")["type"] == "file"
        assert fs.cat_file(f"{folder}/1.{suffix}")
        for read in (fs.cat_file, fs.open):
            with pytest.raises(MissingLedgerError) as caught:
                read(f"{folder}/2.{suffix}")
            assert caught.value.errno == errno.EIO
        with pytest.raises(MissingLedgerError):
            fs.get(folder, str(tmp_path / view), recursive=True)
    assert fs.info(f"entries/{DIRECTORY}/2.entries")["size"] == len(SECOND.records)
    with pytest.raises(OSError, match="cannot be read"):
        pd.read_parquet(f"parquet/{DIRECTORY}", filesystem=fs)
    with pytest.raises(MissingLedgerError):
        fs.cp_file(f"entries/{DIRECTORY}/2.entries", "entries/public/default/new/2.entries")
    with pytest.raises(NotFoundError):
        fs.cat_file(f"entries/{DIRECTORY}/3.entries")


def test_giving_up_a_missing_ledger_makes_the_topic_whole(half: LossyBucket) -> None:
    fs = filesystem(half)
    fs.rm(f"entries/{DIRECTORY}/2.entries")
    assert half.open().topic(TOPIC).count() == MESSAGES
    assert fs.ls(f"entries/{DIRECTORY}", detail=False) == [f"entries/{DIRECTORY}/1.entries"]


def test_a_topic_of_which_all_is_missing_is_a_topic(bucket: LossyBucket) -> None:
    bucket.put(FIRST)
    bucket.put(ledger(5, name=OTHER_NAME), name=OTHER_NAME)
    bucket.lose(key_of(FIRST))
    opened = bucket.open()
    infos = {info.name: (info.ledgers, info.entries, info.missing) for info in opened.topics()}
    assert infos == {TOPIC: (0, 0, 1), OTHER: (1, MESSAGES, 0)}
    with pytest.raises(MissingLedgerError):
        opened.topic(TOPIC).count()
    scan = opened.topic(TOPIC).scan(on_corrupt="skip", start_time="2010-01-02")
    assert (scan.count(), len(scan.missing)) == (0, 1)
    assert opened.topic(OTHER).count() == MESSAGES
    assert [node.path for node in tree_of(opened).children(f"jsonl/{DIRECTORY}")] == [f"jsonl/{DIRECTORY}/1.jsonl"]


def test_a_complete_copy_makes_up_for_what_is_lost(bucket: LossyBucket, quiet: None) -> None:
    for uuid in (1, 2, 3):
        bucket.put(ledger(1, uuid=uuid))
    bucket.lose(key_of(ledger(1, uuid=1)))
    bucket.lose(key_of(ledger(1, uuid=2), "-index"))
    topic = bucket.open().topic(TOPIC)
    assert (topic.count(), topic.missing) == (MESSAGES, ())


def test_a_copy_with_other_entries_makes_up_for_nothing(bucket: LossyBucket) -> None:
    bucket.put(ledger(1, uuid=1, messages=50))
    bucket.put(ledger(1, uuid=2))
    opened = bucket.open()
    with pytest.raises(MissingLedgerError, match="different entries"):
        opened.topic(TOPIC).count()
    with pytest.raises(MissingLedgerError):
        opened.topic(TOPIC).message("1:5")
    assert opened.topic(TOPIC).count(on_corrupt="skip") in {50, MESSAGES}
    report = verify(opened, quick=True)
    (finding,) = [one for one in report.findings if one.severity is Severity.DAMAGE]
    keys = {key_of(ledger(1, uuid=uuid)) for uuid in (1, 2)}
    assert finding.kind == "contradicting-copy"
    assert all(key in f"{finding.key}: {finding.message}" for key in keys)
    # Nothing is hidden from who takes all files.
    assert len(list(tree_of(opened).children(f"entries/{DIRECTORY}"))) == 2
    shorter = ledger(1, uuid=1, messages=50)
    bucket.lose(key_of(shorter))
    opened = bucket.open()
    with pytest.raises(MissingLedgerError, match="data object is missing"):
        opened.topic(TOPIC).count()
    names = [node.path.rpartition("/")[2] for node in tree_of(opened).children(f"entries/{DIRECTORY}")]
    assert names == ["1.entries", f"1@{shorter.uuid}.entries"]
    assert verify(opened, quick=True).is_damaged


def test_copies_of_two_clusters_contradict_each_other_by_their_creation(bucket: LossyBucket, old: None) -> None:
    theirs = ledger(1, uuid=2, created_ms=LATER_MS, first_ms=LATER_MS)
    bucket.put(FIRST)
    bucket.put(theirs)
    opened = bucket.open()
    with pytest.raises(MissingLedgerError, match="different entries"):
        opened.topic(TOPIC).count()
    assert "contradicting-copy" in [one.kind for one in verify(opened, quick=True).findings]
    bucket.lose(key_of(theirs))
    opened = bucket.open()
    with pytest.raises(MissingLedgerError, match="data object is missing"):
        opened.topic(TOPIC).count()
    assert verify(opened, quick=True).is_damaged
    (item,) = plan_repair(opened, older_than_s=0, metadata=False).items
    assert item.action is None


def test_full_verify_compares_what_copies_hold(bucket: LossyBucket) -> None:
    bucket.put(FIRST)
    bucket.put(ledger(1, uuid=2, first_ms=LATER_MS))
    opened = bucket.open()
    assert not verify(opened, quick=True).is_damaged
    (finding,) = [one for one in verify(opened).findings if one.severity is Severity.DAMAGE]
    assert (finding.kind, "other contents" in finding.message) == ("contradicting-copy", True)


@pytest.mark.parametrize("created_ms", [CREATED_MS, None])
def test_copies_that_agree_are_a_remark(bucket: LossyBucket, created_ms: int | None, quiet: None) -> None:
    """One whose creation is unknown agrees, too."""
    bucket.put(ledger(1, uuid=1))
    bucket.put(ledger(1, uuid=2, created_ms=created_ms))
    report = verify(bucket.open())
    assert [one.severity for one in report.findings if one.kind == "extra-copy"] == [Severity.REMARK]
    assert not report.is_damaged
    assert bucket.open().topic(TOPIC).count() == MESSAGES


def test_user_metadata_reports_whose_a_lost_index_was(s3_place: LossyBucket, old: None, quiet: None) -> None:
    s3_place.put(FIRST)
    s3_place.put(SECOND)
    s3_place.put(ledger(9, name=OTHER_NAME), name=OTHER_NAME)
    s3_place.lose(key_of(SECOND, "-index"))
    topic = s3_place.open().topic(TOPIC)
    assert [(one.ledger_id, one.kind, one.entries) for one in topic.missing] == [(2, GapKind.INDEX_LOST, None)]
    with pytest.raises(MissingLedgerError, match="its index is missing"):
        topic.count()
    assert topic.bucket.topic(OTHER).count() == MESSAGES


@pytest.mark.parametrize("teller", ["index", "data"])
def test_user_metadata_reports_whose_a_broken_index_is(s3_place: LossyBucket, teller: str, quiet: None) -> None:
    s3_place.put(FIRST)
    s3_place.put_object(key_of(SECOND), SECOND.data, "public/default/persistent/orders" if teller == "data" else None)
    reported = "public/default/persistent/orders" if teller == "index" else None
    s3_place.put_object(key_of(SECOND, "-index"), b"nonsense", reported)
    topic = s3_place.open().topic(TOPIC)
    assert [(one.ledger_id, one.kind) for one in topic.missing] == [(2, GapKind.INDEX_UNREADABLE)]
    with pytest.raises(MissingLedgerError, match="index cannot be read"):
        topic.count()


def test_an_upload_under_way_is_no_loss_but_is_reported(s3_place: LossyBucket) -> None:
    s3_place.put(FIRST)
    s3_place.put_object(key_of(SECOND), SECOND.data)
    s3_place.put(ledger(9, name=OTHER_NAME), name=OTHER_NAME)
    opened = s3_place.open()
    (reported,) = unplaced_warnings(lambda: opened.topic(TOPIC).count())
    assert "1 ledgers are probably still being uploaded" in reported
    assert unplaced_warnings(lambda: opened.topic(TOPIC).count()) == []
    assert unplaced_warnings(lambda: opened.topic(OTHER).count()) == []
    assert opened.topic(TOPIC).missing == ()
    s3_place.put(SECOND)
    opened.refresh()
    assert unplaced_warnings(lambda: opened.topic(TOPIC).count()) == []
    assert opened.topic(TOPIC).count() == 2 * MESSAGES


def test_what_a_job_has_not_published_is_no_loss(s3_place: LossyBucket, old: None) -> None:
    digits = "0123456789ab"
    uuid = f"{digits[:8]}-{digits[8:]}-4000-8000-000000000001"
    other = f"{digits[:8]}-{digits[8:]}-4000-8000-000000000002"
    s3_place.put(FIRST)
    written, published = (ledger(i, uuid=one) for i, one in ((2, uuid), (3, other)))  # type: ignore[arg-type]
    s3_place.put_object(key_of(written), written.data, **{GROUP_KEY: digits})
    topic = s3_place.open().topic(TOPIC)
    assert len(unplaced_warnings(topic.scan)) == 1
    assert (topic.missing, topic.count()) == ((), MESSAGES)
    # As soon as one of them is published, all are to be.
    s3_place.put(published, **{GROUP_KEY: digits})
    assert [one.ledger_id for one in s3_place.open().topic(TOPIC).missing] == [2]


def test_ledgers_that_nobody_can_place_are_reported_by_every_read(bucket: LossyBucket, old: None) -> None:
    bucket.put(FIRST)
    bucket.put_object(key_of(SECOND), SECOND.data, None)
    bucket.put_object(key_of(THIRD), THIRD.data, None)
    bucket.put_object(key_of(THIRD, "-index"), b"nonsense", None)
    opened = bucket.open()
    (reported,) = unplaced_warnings(lambda: opened.topic(TOPIC).count())
    assert "2 ledgers in this bucket" in reported
    assert opened.topic(TOPIC).missing == ()
    assert opened.topic(TOPIC).scan().to_arrow().num_rows == MESSAGES
    (reported,) = unplaced_warnings(lambda: filesystem(bucket).cat_file(f"jsonl/{DIRECTORY}/1.jsonl"))
    assert "2 ledgers in this bucket" in reported


def test_a_retry_beside_its_ledger_is_not_counted_but_one_too_small_is(bucket: LossyBucket, old: None) -> None:
    bucket.put(FIRST)
    bucket.put_object(key_of(ledger(1, uuid=7)), FIRST.data, None)
    assert bucket.open().catalog.unplaced() == []
    small = ledger(1, uuid=8, messages=3)
    bucket.put_object(key_of(small), small.data, None)
    assert bucket.open().catalog.unplaced() == [1]


OTHERS: list[dict[str, Any]] = [
    {"messages": 1},
    {"messages": MESSAGES // 2},
    {"first_ms": LATER_MS},
    {"messages": MESSAGES + 1},
]
"""A ledger with one row, with half as many as the lost one, as many others, and more."""


def test_ledgers_that_took_the_ids_of_lost_ones_do_not_hide_them(bucket: LossyBucket, old: None) -> None:
    bucket.put(FIRST)
    lost: dict[int, Offload] = {}
    for number, (index, other) in enumerate(product((None, b"nonsense"), OTHERS), 2):
        lost[number] = one = ledger(number)
        bucket.put(ledger(number, uuid=200 + number, **other))
        bucket.put_object(key_of(one), one.data)
        if index is not None:
            bucket.put_object(key_of(one, "-index"), index)
    opened = bucket.open()
    for _ in range(2):
        if bucket.s3 is None:  # Nothing tells the topic in a folder.
            assert opened.catalog.unplaced() == list(lost)
        else:
            with pytest.raises(MissingLedgerError, match=r"ledger 2: .* and 5 more"):
                opened.topic(TOPIC).count()
            assert [one.ledger_id for one in opened.topic(TOPIC).missing] == list(lost)
            names = {node.path.rpartition("/")[2] for node in tree_of(opened).children(f"entries/{DIRECTORY}")}
            both = {name for number, one in lost.items() for name in (f"{number}", f"{number}@{one.uuid}")}
            assert names == {f"{name}.entries" for name in ("1", *both)}
        opened.refresh()
    damaged = {one.key for one in verify(opened, quick=True).findings if one.severity is Severity.DAMAGE}
    assert [number for number, one in lost.items() if not {key_of(one), key_of(one, "-index")} & damaged] == []


def test_an_earlier_try_is_compared_once(bucket: LossyBucket, old: None) -> None:
    for made in (FIRST, SECOND):
        bucket.put(made)
    for data, uuid in ((SECOND.data, 7), (ledger(2, first_ms=LATER_MS).data, 8)):
        bucket.put_object(key_of(ledger(2, uuid=uuid)), data)
    opened = bucket.open()
    first = opened.catalog
    assert {int(one["uuid_low"]): bool(one["has_copy"]) for one in fragments_of(first).orphans} == {7: True, 8: False}
    asked = opened.stats().as_dict().get("GET", 0)
    assert fragments_of(opened.refresh()).orphans.tolist() == fragments_of(first).orphans.tolist()
    assert opened.stats().as_dict().get("GET", 0) == asked
    again = bucket.open()
    again.load_catalog()
    assert again.stats().as_dict().get("GET", 0) == 0
    assert fragments_of(again.catalog).orphans.tolist() == fragments_of(first).orphans.tolist()


def test_two_clusters_may_have_the_same_id(s3_place: LossyBucket, old: None, quiet: None) -> None:
    s3_place.put(FIRST)
    s3_place.put(ledger(2))
    theirs = ledger(1, uuid=9, name=OTHER_NAME)
    s3_place.put_object(key_of(theirs), theirs.data, OTHER_NAME)
    opened = s3_place.open()
    assert opened.topic(TOPIC).count() == 2 * MESSAGES
    with pytest.raises(MissingLedgerError):
        opened.topic(OTHER).count()


def late_store(bucket: LossyBucket) -> tuple[Bucket, LateStore]:
    store = LateStore(bucket.open().raw_store)
    return Bucket(store), store  # type: ignore[arg-type]


def test_a_ledger_that_comes_while_the_bucket_is_listed_is_no_half(bucket: LossyBucket, quiet: None) -> None:
    bucket.put(FIRST)
    bucket.put(SECOND)
    opened, store = late_store(bucket)
    store.unlisted = (key_of(SECOND),)
    assert opened.topic(TOPIC).count() == 2 * MESSAGES


def test_a_ledger_that_goes_while_the_bucket_is_listed_is_no_half(
    s3_place: LossyBucket, old: None, quiet: None
) -> None:
    for made in (FIRST, SECOND, THIRD):
        s3_place.put(made)
    stats = {stat.key: stat for page in s3_place.open().raw_store.list_pages() for stat in page}
    for made in (SECOND, THIRD):
        s3_place.lose(key_of(made))
        s3_place.lose(key_of(made, "-index"))
    opened, store = late_store(s3_place)
    store.listed_still = (stats[key_of(SECOND)], stats[key_of(THIRD, "-index")])
    assert opened.topic(TOPIC).count() == MESSAGES
    assert not fragments_of(opened.catalog).orphans.size
    assert not opened.catalog.lost.size


def test_an_object_is_asked_for_once(s3_place: LossyBucket, old: None) -> None:
    s3_place.put(FIRST)
    for i in range(2, 10):
        made = ledger(i, messages=1)
        s3_place.put_object(key_of(made), made.data, None if i % 2 else "public/default/persistent/orders")
    s3_place.put(THIRD)
    s3_place.lose(key_of(THIRD))
    opened, store = late_store(s3_place)
    first = opened.catalog
    asked = store.heads
    second = opened.refresh()
    assert asked >= 8
    assert store.heads == asked
    assert second.gaps.tolist() == first.gaps.tolist()
    # And by another process, through the catalog on disk.
    kept = s3_place.open().catalog
    opened = s3_place.open()
    opened.load_catalog()
    assert opened.stats().as_dict().get("HEAD", 0) == 0
    assert opened.catalog.gaps.tolist() == kept.gaps.tolist() == first.gaps.tolist()


def test_a_kept_catalog_of_a_lost_object_gives_an_error_and_no_rows(
    bucket: LossyBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put(FIRST)
    bucket.put(SECOND)
    bucket.open().load_catalog()
    bucket.lose(key_of(SECOND))
    opened = bucket.open(catalog_max_age=3600)
    with pytest.raises(ObjectNotFoundError):
        opened.topic(TOPIC).count()
    with monkeypatch.context() as patch:
        patch.setenv("LEDGERFS_CATALOG_MAX_AGE", "3600")
        (reported,) = json.loads(run_on(bucket, "count", bucket.url, TOPIC, "--json", code=1).stdout)
    assert (reported["messages"], reported["damaged"]) == (None, True)
    bucket.lose(key_of(FIRST))
    bucket.open().load_catalog()
    with pytest.raises(MissingLedgerError):
        bucket.open(catalog_max_age=3600).topic(TOPIC).count()


def test_commands_say_it_and_exit_with_1(half: LossyBucket, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    for command in (
        ("count", half.url),
        ("count", half.url, TOPIC, "--json"),
        ("head", half.url, TOPIC),
        ("head", half.url, TOPIC, "--json"),
        ("export", half.url, TOPIC, out),
        ("info", half.url, "2"),
    ):
        done = run_on(half, *command, code=1)
        assert b"data object is missing" in done.stderr, command
        assert b"sequence_id" not in done.stdout
    assert not Path(out).exists()
    (reported,) = json.loads(run_on(half, "count", half.url, "--json", code=1).stdout)
    assert (reported["messages"], reported["damaged"], reported["missing"][0]["ledger_id"]) == (None, True, 2)
    skip = ("--on-corrupt", "skip")
    done = run_on(half, "count", half.url, "--json", *skip, code=1)
    (reported,) = json.loads(done.stdout)
    assert (reported["messages"], reported["damaged"], len(reported["missing"])) == (MESSAGES, True, 1)
    assert b"left out ledger 2" in done.stderr
    assert b"left out ledger 2" in run_on(half, "export", half.url, TOPIC, out, *skip, code=1).stderr
    assert b"left out ledger 2" in run_on(half, "head", half.url, TOPIC, *skip, code=1).stderr
    done = run_on(half, "topics", half.url, "--json")
    assert [(one["ledgers"], one["missing"]) for one in json.loads(done.stdout)] == [(1, 1)]
    assert b"1 ledgers are missing" in done.stderr
    assert b"2.entries" in run_on(half, "ls", "-l", half.url, f"entries/{DIRECTORY}").stdout


def test_cat_says_it_too(half: LossyBucket) -> None:
    """The command needs a file as its output, so it runs in a process of its own."""
    done = run_process("cat", half.url, f"jsonl/{DIRECTORY}/2.jsonl", code=1, env=half.env)
    assert b"data object is missing" in done.stderr
    assert done.stdout == b""
    half.put_object(key_of(SECOND, "-index"), b"nonsense", None)
    paths = f"jsonl/{DIRECTORY}/1.jsonl", f"entries/{DIRECTORY}/1.entries"
    assert run_process("cat", half.url, *paths, env=half.env).stderr.count(b"in this bucket is unknown") == 1
