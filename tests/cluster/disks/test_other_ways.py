"""Every other way to read disks: fsspec's tree, a mount, Spark, exports, offloads; and what commands say."""

import json
from pathlib import Path

import fsspec
import pyarrow.parquet as pq
import pytest

from ledgerfs import open_bucket
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from tests.cluster.support.bookie_disks import MadeLedger, golden_disk, list_node, make_disk, write_dump, write_log
from tests.support.entries import frame
from tests.support.entries import metadata as message_metadata
from tests.support.golden_rows import as_java_says, expected_of, rows_of, wanted
from tests.support.invoked import output, run

PLAIN = "persistent://public/golden/plain"


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden_disk("bookie-dbledger", tmp_path_factory.mktemp("golden"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGERFS_CACHE_DIR", str(tmp_path / "cache"))


def metadata(golden: Path) -> tuple[str, str]:
    return "--metadata", str(golden / "dump.json.zst")


def plain(golden: Path) -> list[dict[str, object]]:
    return wanted(expected_of(golden, PLAIN))


def test_the_tree_of_fsspec(golden: Path) -> None:
    disk = {"metadata": str(golden / "dump.json.zst")}
    fs, root = fsspec.core.url_to_fs(f"ledger://parquet/public/golden/plain::bookies://{golden}/ledgers", bookies=disk)
    names = sorted(fs.ls(root, detail=False))
    assert len(names) == 2
    rows = [as_java_says(row) for name in names for row in pq.read_table(fs.open(name)).to_pylist()]
    assert rows == plain(golden)
    entries = fs.info("entries/public/golden/plain/26.entries")
    assert entries["size"] == len(fs.cat_file("entries/public/golden/plain/26.entries"))


def test_an_export(golden: Path, tmp_path: Path) -> None:
    run("export", str(golden / "ledgers"), PLAIN, str(tmp_path / "out"), *metadata(golden))
    files = sorted((tmp_path / "out").glob("*.parquet"), key=lambda path: int(path.stem.rpartition("-")[2]))
    assert [as_java_says(row) for path in files for row in pq.read_table(path).to_pylist()] == plain(golden)


def test_an_offload_gives_a_bucket_with_the_same_rows(golden: Path, tmp_path: Path) -> None:
    command = ("offload", str(golden / "ledgers"), str(tmp_path / "tier"), *metadata(golden))
    refused = run(*command, code=1)
    assert b"ledger 27 of persistent://public/golden/__transaction_buffer_snapshot" in refused.stderr
    assert b"the ledger is not closed" in refused.stderr
    assert output(*command, "-o", "open_end=recovered").startswith("ledgers copied: 2 ")
    copied = open_bucket(tmp_path / "tier")
    assert rows_of(copied.topic(PLAIN).scan()) == plain(golden)
    assert "there already: 28" in output(*command, "-o", "open_end=recovered")


def test_nothing_is_offloaded_of_which_nobody_knows_whose_it_is(golden: Path, tmp_path: Path) -> None:
    done = run("offload", str(golden / "ledgers"), str(tmp_path / "tier"), code=1)
    assert b"its metadata is required" in done.stderr
    assert not (tmp_path / "tier").exists() or not any((tmp_path / "tier").iterdir())


@pytest.mark.parametrize("reported", [None, "t/n/persistent/another"])
def test_a_ledger_whose_metadata_name_another_topic_is_not_offloaded(tmp_path: Path, reported: str | None) -> None:
    """A list that was put under another name lists it, and a bucket goes by what the ledger itself tells."""
    payloads = [frame(message_metadata(), b"%d" % number) for number in range(3)]
    ledger = MadeLedger(7, payloads=payloads, managed_ledger=reported)
    write_log(make_disk(tmp_path / "disk"), 1, [ledger.stored(entry) for entry in range(3)])
    node = list_node("t/n/persistent/x", LedgerInfo(7, 3, sum(map(len, payloads)), 5))
    write_dump(tmp_path / "dump", [node, ledger.zookeeper_node()])
    disk = (str(tmp_path / "disk"), "--metadata", str(tmp_path / "dump"))
    refused = run("offload", disk[0], str(tmp_path / "tier"), *disk[1:], code=1)
    assert f"by its own metadata the ledger belongs to {reported or 'no topic'}" in refused.stderr.decode()
    assert not list((tmp_path / "tier").glob("*-ledger-*"))
    (counted,) = json.loads(output("count", disk[0], "persistent://t/n/x", *disk[1:], "--json"))
    assert counted["messages"] == 3


def test_a_disk_is_known_by_its_folders(golden: Path) -> None:
    for path in (golden / "ledgers", golden, golden / "ledgers" / "current"):
        (topic,) = json.loads(output("topics", str(path), "--json"))
        assert (topic["managed_ledger"], topic["entries"]) == (None, 2716)


def test_topics_and_count_with_metadata(golden: Path) -> None:
    reported = run("topics", str(golden / "ledgers"), *metadata(golden), "--json")
    found = {one["name"]: one["entries"] for one in json.loads(reported.stdout)}
    assert found[PLAIN] == 800
    assert b" ledgers of subscriptions, schemas and transactions" in reported.stderr
    counted = json.loads(output("count", str(golden / "ledgers"), PLAIN, *metadata(golden), "--json"))
    assert [one["messages"] for one in counted] == [800]


def test_entries_larger_than_pulsars_are_found_where_an_option_says_so(tmp_path: Path) -> None:
    ledger = MadeLedger(7, payloads=[b"a", b"b" * (6 << 20), b"c"])
    write_log(make_disk(tmp_path / "disk"), 1, [ledger.stored(entry) for entry in range(3)])
    write_dump(tmp_path / "dump", [ledger.zookeeper_node()])
    arguments = (str(tmp_path / "disk"), "--metadata", str(tmp_path / "dump"))
    lost = run("verify", *arguments, code=1)
    assert b"no-record" in lost.stdout
    assert b"lost-entries" in lost.stdout
    assert b"lost" not in run("verify", *arguments, "-o", "max_entry=7MiB").stdout
    assert "6.0 MiB" in output("bookie", "space", *arguments, "-o", f"max_entry={7 << 20}")
    assert b"max_entry=-5" in run("verify", *arguments, "-o", "max_entry=-5", code=2).stderr


def test_what_is_no_disk_is_refused(tmp_path: Path, golden: Path) -> None:
    (tmp_path / "current").mkdir()
    refused = run("topics", str(tmp_path), *metadata(golden), code=3)
    assert b"not a bookie disk" in refused.stderr
    assert b"is listed twice" in run("topics", str(golden / "ledgers"), str(golden / "ledgers"), code=2).stderr
    assert b"but s3://tier is not a bookie disk" in run("verify", str(golden / "ledgers"), "s3://tier", code=2).stderr
    missing = run("topics", str(golden / "ledgers"), "--metadata", str(tmp_path / "none"), code=2)
    assert b"the dump cannot be opened" in missing.stderr
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"value": "x"}\n')
    assert (
        b"ledgerfs cannot write to disks of bookies"
        in run("import", str(rows), str(golden / "ledgers"), PLAIN, code=2).stderr
    )


def test_info_lists_the_files_of_a_ledger(golden: Path) -> None:
    (file,) = json.loads(output("info", str(golden / "ledgers"), "26", *metadata(golden), "--json"))["files"]
    assert file["path"].endswith(".log")
    assert file["entries"] == open_bucket(golden / "ledgers").ledger(26).last_entry + 1
