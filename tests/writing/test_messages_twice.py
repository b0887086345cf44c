"""The same messages under two ids, a plain copy of a ledger and what `offload --unbatch` made of it, in one bucket; and their order."""

from pathlib import Path
from typing import Any

import pytest

from ledgerfs import copy_ledgers, import_rows, open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.same_messages import is_own_id
from ledgerfs.errors import IncompleteCopyError, LedgerExistsError
from ledgerfs.formats.origin import Origin, build_origin, parse_origin
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.messages.proto.message_metadata_pb2 import BatchedMetadataRecord
from ledgerfs.verification.verify import verify
from ledgerfs.writing.copy_ledgers import CopyReport
from tests.support.each import for_each
from tests.support.entries import batched, frame, metadata
from tests.support.invoked import run
from tests.support.ledgers import CREATED_MS, NAME, Offload, offload, put_in_folder
from tests.support.mapfile_buckets import mapfile, put_mapfiles
from tests.support.writes import when_listed

TOPIC = "public/default/orders"
MESSAGES = 4
"""Messages of a ledger: two batches of two."""


def entries(ledger_id: int, repeats: int = 50) -> list[bytes]:
    texts = [[b"%d:%d:%d" % (ledger_id, n, i) * repeats for i in range(2)] for n in range(2)]
    return [
        batched([(BatchedMetadataRecord(payload_size=len(text)), text) for text in some], sequence_id=2 * n)
        for n, some in enumerate(texts)
    ]


def made(ledger_id: int, **options: Any) -> Offload:
    return offload(entries(ledger_id), ledger_id, uuid=options.pop("uuid", ledger_id), **options)


def made_source(folder: Path) -> str:
    (folder / "source").mkdir()
    return put_in_folder(folder / "source", made(5), made(6))


def made_target(folder: Path) -> str:
    (folder / "target").mkdir()
    return f"file://{folder / 'target'}"


@pytest.fixture
def source(tmp_path: Path) -> str:
    return made_source(tmp_path)


@pytest.fixture
def target(tmp_path: Path) -> str:
    return made_target(tmp_path)


def copied(source: str | Bucket, target: str | Bucket, **options: Any) -> CopyReport:
    return copy_ledgers(source, target, allow_incomplete=True, **options)


def outcome(report: CopyReport) -> tuple[int, int, int]:
    return report.copied, report.skipped, len(report.failed)


def ids(url: str) -> list[int]:
    return [ref.ledger_id for ref in open_bucket(url).catalog.refs()]


def count(url: str) -> int:
    return open_bucket(url).topic(TOPIC).count()


def require_doubled(report: CopyReport) -> None:
    assert report.failed
    for one in report.failed:
        assert isinstance(one.error, LedgerExistsError)
        assert "would be duplicated" in str(one.error)


PLAIN: dict[str, Any] = {}
UNBATCHED: dict[str, Any] = {"unbatch": True}
FIRST_OTHERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (UNBATCHED, PLAIN),
    (UNBATCHED, {"new_uuid": True, "if_exists": "new-copy"}),
    (UNBATCHED, {"unbatch": True, "if_exists": "fail"}),
    (UNBATCHED, {"unbatch": True, "if_exists": "new-copy"}),
    (UNBATCHED, {"unbatch": True, "ledger_id": 1000}),
    (PLAIN, UNBATCHED),
    ({"new_uuid": True}, {"unbatch": True, "ledger_id": 1000, "compression": "zstd"}),
]


@for_each(("first", "second"), FIRST_OTHERS)
def test_the_later_copy_is_refused_where_its_messages_are_under_another_id(
    first: dict[str, Any], second: dict[str, Any], case_path: Path
) -> None:
    folder = case_path
    source, target = made_source(folder), made_target(folder)
    assert outcome(copied(source, target, **first)) == (2, 0, 0)
    before = ids(target)
    report = copied(source, target, **second)
    assert outcome(report) == (0, 0, 2)
    require_doubled(report)
    assert ids(target) == before
    assert count(target) == 2 * MESSAGES


@for_each("first", [None, 1000])
@for_each("again", [None, 1000])
def test_what_was_unbatched_before_is_there_already(first: int | None, again: int | None, case_path: Path) -> None:
    folder = case_path
    source, target = made_source(folder), made_target(folder)
    copied(source, target, unbatch=True, ledger_id=first)
    before = ids(target)
    report = copied(source, target, unbatch=True, ledger_id=again)
    # Ids that are chosen are to be those.
    assert outcome(report) == ((0, 2, 0) if again in {None, first} else (0, 0, 2))
    assert ids(target) == before
    put_in_folder(Path(source.removeprefix("file://")), made(7))
    assert copied(source, target, unbatch=True).copied == 1
    assert count(target) == 3 * MESSAGES


# Meetings


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(PLAIN, UNBATCHED), (UNBATCHED, PLAIN), (UNBATCHED, UNBATCHED)],
    ids=["plain", "unbatched", "both unbatched"],
)
def test_who_lists_last_takes_back(
    ours: dict[str, Any],
    theirs: dict[str, Any],
    source: str,
    target: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = open_bucket(target)
    left: list[int] = []

    def meet() -> None:
        # Unknown to the other until its end.
        assert outcome(copied(source, target, **theirs)) == (2, 0, 0)
        left.extend(ids(target))

    when_listed(monkeypatch, meet, at=1, by=lambda one: one is view)
    report = copied(source, view, **ours)
    assert outcome(report) == (0, 0, 2)
    require_doubled(report)
    assert all("The new ledger is removed again" in str(one.error) for one in report.failed)
    assert ids(target) == left
    assert count(target) == 2 * MESSAGES
    assert not verify(open_bucket(target)).is_damaged


def test_a_file_that_is_put_beside_is_found_at_the_end(source: str, target: str) -> None:
    copied(source, target, unbatch=True)
    before = ids(target)
    fs = LedgerFileSystem(fo=target.removeprefix("file://"), target_protocol="file")
    for policy in ("fail", "skip", "new-copy"):
        with pytest.raises(LedgerExistsError, match="would be duplicated"):
            fs.pipe_file(f"entries/{TOPIC}/5.entries", made(5).records, if_exists=policy)
    assert ids(target) == before


# What is the same


def test_copies_of_copies_know_the_first_ledger(source: str, target: str, tmp_path: Path) -> None:
    copied(source, target, unbatch=True)
    for name, options in (("plain", PLAIN), ("again", UNBATCHED)):
        further = f"file://{tmp_path / name}"
        assert outcome(copied(target, further, **options)) == (2, 0, 0)
        require_doubled(copied(source, further))
        assert outcome(copied(source, further, unbatch=True)) == (0, 2, 0)
        assert count(further) == 2 * MESSAGES
    require_doubled(copied(target, source))
    require_doubled(copied(source, source, unbatch=True, ledger_id=100))
    assert ids(source) == [5, 6]


def test_a_bucket_that_has_them_twice_is_copied_as_it_is_and_reported(source: str, target: str, tmp_path: Path) -> None:
    copied(source, target, unbatch=True)
    put_in_folder(Path(target.removeprefix("file://")), made(5))
    report = verify(open_bucket(target))
    (finding,) = [one for one in report.findings if one.kind == "messages-twice"]
    assert report.is_damaged
    assert f"{made(5).uuid}-ledger-5 has the same messages, under the id 5" in finding.message
    assert is_own_id(finding.ledger_id or 0)
    # What is there already is told as well.
    require_doubled(copied(source, target, topics=TOPIC))
    for options in (PLAIN, {"new_uuid": True}):
        further = f"file://{tmp_path / 'further'}{len(str(options))}"
        assert outcome(copied(target, further, **options)) == (3, 0, 0)
        assert ids(further) == ids(target)
    anew = copied(target, f"file://{tmp_path / 'anew'}", unbatch=True)
    assert outcome(anew) == (1, 0, 2)
    assert all("the source has the same messages twice" in str(one.error) for one in anew.failed)


@for_each(
    "other",
    [
        made(5, created_ms=CREATED_MS + 1),
        made(5, name="public/default/persistent/other"),
        offload(entries(5)[:1], 5),
        offload([*entries(5), *entries(4)], 4),
    ],
)
def test_another_ledger_of_that_id_is_no_double(other: Offload, case_path: Path) -> None:
    source, target = made_source(case_path), made_target(case_path)
    copied(source, target, unbatch=True)
    (case_path / "other").mkdir()
    further = put_in_folder(case_path / "other", other)
    assert outcome(copied(further, target)) == (1, 0, 0)
    assert not verify(open_bucket(target)).is_damaged


@for_each("is_longer", [False, True])
def test_without_a_creation_the_length_reports(is_longer: bool, case_path: Path) -> None:
    target = made_target(case_path)
    (case_path / "source").mkdir()
    (case_path / "other").mkdir()
    mine = put_in_folder(case_path / "source", made(5, created_ms=None))
    copied(mine, target, unbatch=True)
    reported = offload(entries(5, 50 + is_longer), 5, uuid=9, created_ms=None)
    other = put_in_folder(case_path / "other", reported)
    assert outcome(copied(other, target)) == ((1, 0, 0) if is_longer else (0, 0, 1))


def test_what_was_made_of_a_mapfile_is_known(target: str, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    put_mapfiles(tmp_path / "files", mapfile(entries(5), 5, name=NAME))
    files = f"file://{tmp_path / 'files'}"
    assert outcome(copied(files, target, unbatch=True)) == (1, 0, 0)
    require_doubled(copied(files, target))
    assert outcome(copied(files, target, unbatch=True)) == (0, 1, 0)
    assert count(target) == MESSAGES


def test_a_kept_catalog_knows_it_too(source: str, target: str, tmp_path: Path) -> None:
    copied(source, target, unbatch=True)
    cache = str(tmp_path / "cache")
    listed = open_bucket(target, cache_dir=cache).catalog
    kept = open_bucket(target, cache_dir=cache, catalog_max_age=3600).catalog
    expected = [Origin(n, 1, sum(map(len, entries(n)))) for n in (5, 6)]
    assert [ref.origin for ref in listed.refs()] == expected
    assert [ref.origin for ref in kept.refs()] == expected
    assert [ref.origin for ref in open_bucket(source).catalog.refs()] == [None, None]


def test_a_copy_under_another_topic_is_none_of_this_one(source: str, target: str) -> None:
    copied(source, target, unbatch=True)
    fs = LedgerFileSystem(fo=target.removeprefix("file://"), target_protocol="file")
    path = fs.ls(f"entries/{TOPIC}", detail=False)[0]
    fs.cp(path, "entries/public/default/other/77.entries")
    assert [ref.origin for ref in open_bucket(target).catalog.all_of(77)] == [None]
    assert not verify(open_bucket(target)).is_damaged


def test_what_is_noted_of_an_origin() -> None:
    origin = Origin(5, 1, 200)
    data = build_origin(origin, NAME)
    assert parse_origin(data, NAME) == origin
    assert parse_origin(data, "public/default/persistent/other") is None
    assert parse_origin(build_origin(origin, None), None) == origin
    for wrong in (
        b"",
        b"5",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        data.replace(b"200", b"true"),
        data.replace(b"200", b"2.5"),
    ):
        assert parse_origin(wrong, NAME) is None
    for numbers in (
        Origin(-1, 1, 200),
        Origin(5, -1, 200),
        Origin(5, 1, -2),
        Origin(5, 2**32 - 1, 200),
        Origin(2**70, 1, 1),
    ):
        assert parse_origin(build_origin(numbers, NAME), NAME) is None


# The order in which ledgers are read: those that were made of others under new ids are read in the order of these, or not written.

ORDERS = f"persistent://{TOPIC}"


def parts(ledger_id: int) -> Offload:
    """Ledgers 1 and 2 have the halves of a chunked message."""
    half = ledger_id - 1
    time_ms = CREATED_MS + 1000 * ledger_id
    whole = frame(metadata(publish_time_ms=time_ms), b"%d" % ledger_id)
    chunk = frame(metadata(publish_time_ms=time_ms, chunked_id=b"c", chunk=half, chunks=2, chunked_size=20), b"x" * 10)
    entries = {1: [whole, chunk], 2: [chunk, whole]}.get(ledger_id, [whole])
    return offload(entries, ledger_id, uuid=ledger_id, name=NAME, created_ms=time_ms)


def values(folder: Path) -> list[bytes]:
    return open_bucket(str(folder)).topic(ORDERS).scan(["value"]).to_arrow()["value"].to_pylist()


@pytest.fixture
def late_source(tmp_path: Path) -> Path:
    """A bucket that has ledgers 2 and 3; ledger 1 comes late."""
    (tmp_path / "source").mkdir()
    put_in_folder(tmp_path / "source", parts(2), parts(3))
    return tmp_path / "source"


@pytest.fixture
def made_before(late_source: Path, tmp_path: Path) -> Path:
    """What became of ledgers 2 and 3."""
    assert copy_ledgers(str(late_source), str(tmp_path / "target"), unbatch=True).copied == 2
    return tmp_path / "target"


def test_a_ledger_that_comes_late_is_not_put_after_later_ones(late_source: Path, made_before: Path) -> None:
    before = values(made_before)
    put_in_folder(late_source, parts(1))
    whole = [b"1", b"x" * 20, b"2", b"3"]
    assert values(late_source) == whole
    with pytest.raises(
        IncompleteCopyError, match=r"with the messages of ledger 2: .* ledger 1 would be read in the wrong order"
    ):
        copy_ledgers(str(late_source), str(made_before), unbatch=True)
    assert values(made_before) == before
    reported = run("offload", str(late_source), str(made_before), "--unbatch", code=1).stderr.decode()
    assert "first, and copy both again" in reported
    LedgerFileSystem(made_before.as_uri(), "file").rm("entries/public/default/orders", recursive=True)
    assert copy_ledgers(str(late_source), str(made_before), unbatch=True).copied == 3
    assert values(made_before) == whole
    assert not [one for one in verify(open_bucket(str(made_before))).findings if one.kind == "wrong-order"]


@pytest.mark.parametrize("ledger_id", [4, 5])
def test_ledgers_under_their_own_ids_are_not_put_before_what_was_made_of_earlier_ones(
    ledger_id: int, late_source: Path, made_before: Path
) -> None:
    put_in_folder(late_source, parts(ledger_id))
    with pytest.raises(IncompleteCopyError) as caught:
        copy_ledgers(str(late_source), str(made_before))
    reasons = [str(one.error) for one in caught.value.report.failed]
    assert sum("would be read in the wrong order" in reason for reason in reasons) == 1
    assert len(reasons) == 3
    assert values(made_before) == [b"2", b"3"]


def test_an_id_that_is_chosen_may_keep_the_order(late_source: Path, tmp_path: Path) -> None:
    """Between ledgers 2 and 4 there is room for what is made of ledger 3."""
    (tmp_path / "between").mkdir()
    put_in_folder(tmp_path / "between", parts(2), parts(9))
    three = tmp_path / "three"
    three.mkdir()
    put_in_folder(three, parts(3))
    with pytest.raises(IncompleteCopyError, match="wrong order"):
        copy_ledgers(str(three), str(tmp_path / "between"), unbatch=True)
    assert copy_ledgers(str(three), str(tmp_path / "between"), unbatch=True, ledger_id=5).copied == 1
    assert values(tmp_path / "between") == [b"2", b"3", b"9"]


def test_rows_that_are_imported_come_when_they_come(late_source: Path, made_before: Path) -> None:
    import_rows(str(made_before), open_bucket(str(late_source)).topic(ORDERS).scan(["value"]), ORDERS)
    put_in_folder(late_source, parts(4))
    assert copy_ledgers(str(late_source), str(made_before), unbatch=True).copied == 1
    assert values(made_before) == [b"2", b"3", b"2", b"3", b"4"]


def test_a_ledger_that_comes_meanwhile_is_seen(
    late_source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker offloads ledger 9 of the topic just before the target is listed again: what was made of 2 and 3 would come after it."""
    made_before = tmp_path / "target"
    when_listed(monkeypatch, lambda: put_in_folder(made_before, parts(9)), at=2, is_before=True)
    report = copy_ledgers(str(late_source), str(made_before), unbatch=True, allow_incomplete=True)
    assert [type(one.error) for one in report.failed] == [LedgerExistsError] * 2
    assert values(made_before) == [b"9"]


def test_verify_names_ledgers_that_are_read_in_another_order(late_source: Path, made_before: Path) -> None:
    put_in_folder(made_before, parts(9))
    found = [one for one in verify(open_bucket(str(made_before)), quick=True).findings if one.kind == "wrong-order"]
    assert len(found) == 2
    assert "(ledger 9) those of ledger 9" in found[0].message
