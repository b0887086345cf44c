"""Ledgers that were made of others under new ids are read in the order of those, or not written."""

from pathlib import Path

import pytest

from ledgerfs import copy_ledgers, import_rows, open_bucket, verify
from ledgerfs.errors import IncompleteCopyError, LedgerExistsError
from ledgerfs.fsspec_impl import LedgerFileSystem
from tests.support.entries import frame, metadata
from tests.support.invoked import run
from tests.support.ledgers import CREATED_MS, NAME, Offload, offload, put_in_folder
from tests.support.writes import when_listed

TOPIC = "persistent://public/default/orders"


def parts(ledger_id: int) -> Offload:
    """Ledgers 1 and 2 have the halves of a chunked message."""
    half = ledger_id - 1
    time_ms = CREATED_MS + 1000 * ledger_id
    whole = frame(metadata(publish_time_ms=time_ms), b"%d" % ledger_id)
    chunk = frame(metadata(publish_time_ms=time_ms, chunked_id=b"c", chunk=half, chunks=2, chunked_size=20), b"x" * 10)
    entries = {1: [whole, chunk], 2: [chunk, whole]}.get(ledger_id, [whole])
    return offload(entries, ledger_id, uuid=ledger_id, name=NAME, created_ms=time_ms)


def values(folder: Path) -> list[bytes]:
    return open_bucket(str(folder)).topic(TOPIC).scan(["value"]).to_table()["value"].to_pylist()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A bucket that has ledgers 2 and 3; ledger 1 comes late."""
    (tmp_path / "source").mkdir()
    put_in_folder(tmp_path / "source", parts(2), parts(3))
    return tmp_path / "source"


@pytest.fixture
def target(source: Path, tmp_path: Path) -> Path:
    """What became of ledgers 2 and 3."""
    assert copy_ledgers(str(source), str(tmp_path / "target"), unbatch=True).copied == 2
    return tmp_path / "target"


def test_a_ledger_that_comes_late_is_not_put_after_later_ones(source: Path, target: Path) -> None:
    before = values(target)
    put_in_folder(source, parts(1))
    whole = [b"1", b"x" * 20, b"2", b"3"]
    assert values(source) == whole
    with pytest.raises(IncompleteCopyError, match=r"made of 2: .* ledger 1 would be read on the wrong side"):
        copy_ledgers(str(source), str(target), unbatch=True)
    assert values(target) == before
    told = run("offload", str(source), str(target), "--unbatch", code=1).stderr.decode()
    assert "remove that one first, and copy both again" in told
    LedgerFileSystem(target.as_uri(), "file").rm("entries/public/default/orders", recursive=True)
    assert copy_ledgers(str(source), str(target), unbatch=True).copied == 3
    assert values(target) == whole
    assert not [one for one in verify(str(target)).findings if one.kind == "wrong-order"]


@pytest.mark.parametrize("ledger_id", [4, 5])
def test_ledgers_under_their_own_ids_are_not_put_before_what_was_made_of_earlier_ones(
    ledger_id: int, source: Path, target: Path
) -> None:
    put_in_folder(source, parts(ledger_id))
    with pytest.raises(IncompleteCopyError) as caught:
        copy_ledgers(str(source), str(target))
    reasons = [str(one.error) for one in caught.value.report.failed]
    assert sum("would be read on the wrong side" in reason for reason in reasons) == 1
    assert len(reasons) == 3
    assert values(target) == [b"2", b"3"]


def test_an_id_that_is_chosen_may_keep_the_order(source: Path, tmp_path: Path) -> None:
    """Between ledgers 2 and 4 there is room for what is made of ledger 3."""
    (tmp_path / "between").mkdir()
    put_in_folder(tmp_path / "between", parts(2), parts(9))
    three = tmp_path / "three"
    three.mkdir()
    put_in_folder(three, parts(3))
    with pytest.raises(IncompleteCopyError, match="wrong side"):
        copy_ledgers(str(three), str(tmp_path / "between"), unbatch=True)
    assert copy_ledgers(str(three), str(tmp_path / "between"), unbatch=True, ledger_id=5).copied == 1
    assert values(tmp_path / "between") == [b"2", b"3", b"9"]


def test_rows_that_are_imported_come_when_they_come(source: Path, target: Path) -> None:
    import_rows(str(target), open_bucket(str(source)).topic(TOPIC).scan(["value"]), TOPIC)
    put_in_folder(source, parts(4))
    assert copy_ledgers(str(source), str(target), unbatch=True).copied == 1
    assert values(target) == [b"2", b"3", b"2", b"3", b"4"]


def test_a_ledger_that_comes_meanwhile_is_seen(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker offloads ledger 9 of the topic just before the target is listed again: what was made of 2 and 3 would come after it."""
    target = tmp_path / "target"
    when_listed(monkeypatch, lambda: put_in_folder(target, parts(9)), at=3, is_before=True)
    report = copy_ledgers(str(source), str(target), unbatch=True, allow_incomplete=True)
    assert [type(one.error) for one in report.failed] == [LedgerExistsError] * 2
    assert values(target) == [b"9"]


def test_verify_names_ledgers_that_are_read_in_another_order(source: Path, target: Path) -> None:
    put_in_folder(target, parts(9))
    found = [one for one in verify(str(target), quick=True).findings if one.kind == "wrong-order"]
    assert len(found) == 2
    assert "(ledger 9, of 9)" in found[0].message
