"""What verify finds, and that it finds nothing in what is whole."""

import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from ledgerfs import Bucket, open_bucket
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.pulsar_blob.block import build_padding
from ledgerfs.formats.pulsar_blob.index import build_index, parse_index
from ledgerfs.verification import Finding, Report, Severity, verify
from ledgerfs.verification.verify import verify_listed
from tests.support.ledgers import offload, put_in_folder, record, records_of
from tests.support.s3 import S3Server


def damage(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.severity is Severity.DAMAGE]


def kinds(report: Report) -> list[str]:
    return [finding.kind for finding in report.findings if finding.kind != "no-user-metadata"]


def test_the_golden_bucket_is_whole(golden_url: str) -> None:
    report = verify(open_bucket(golden_url))
    assert [finding.kind for finding in report.findings] == ["no-user-metadata", "unsaved-schemas"]
    assert (report.ledgers, report.entries, report.bytes) == (104, 4221, 26_894_196)
    assert not report.is_damaged


@pytest.mark.parametrize("quick", [True, False])
def test_the_ledger_that_pulsar_lost_is_found(quick: bool, truncated_url: str) -> None:
    report = verify(open_bucket(truncated_url), quick=quick)
    first = damage(report)[0]
    assert (first.kind, first.ledger_id, first.offset) == ("truncated-offload", 201, 5_242_880)
    assert first.key == "d5b0d817-e819-4bc6-8610-c87c1c7bd0e8-ledger-201"
    assert "entries 5 to 10 are missing" in first.message
    assert report.entries == (0 if quick else 5)


def test_quick_reads_no_data(golden_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = open_bucket(golden_url)
    bucket.load_catalog()
    monkeypatch.setattr(type(bucket.store), "read", None)
    assert not verify(bucket, quick=True).is_damaged


def test_pairs_that_are_none_are_damage_unless_there_is_a_whole_copy(tmp_path: Path) -> None:
    """One of another topic, as where two clusters share a bucket, is no copy."""
    orphan, lost, orphan_copy, lost_copy, whole, ours = (
        offload([b"x"], ledger_id, uuid=uuid) for ledger_id, uuid in ((1, 1), (2, 2), (3, 3), (3, 4), (3, 5), (4, 6))
    )
    theirs = offload([b"x"], 4, uuid=7, name="a/b/persistent/theirs")
    url = put_in_folder(tmp_path, orphan, lost, orphan_copy, lost_copy, whole, ours, theirs)
    for made, ending in ((orphan, "-index"), (orphan_copy, "-index"), (lost, ""), (lost_copy, ""), (ours, "")):
        (tmp_path / f"{made.uuid}-ledger-{made.ledger_id}{ending}").unlink()
    found = {
        (finding.kind, finding.ledger_id): finding.severity.value
        for finding in verify(open_bucket(url), quick=True).findings
    }
    assert found == {
        ("data-without-index", 1): "damage",
        ("index-without-data", 2): "damage",
        ("data-without-index", 3): "remark",
        ("index-without-data", 3): "remark",
        ("index-without-data", 4): "damage",
    }


def test_missing_and_repeated_entry_ids_are_found_and_other_blocks_still_checked(tmp_path: Path) -> None:
    made = offload([b"x" * 50] * 40, block_size=1000)
    url = put_in_folder(tmp_path, made)
    data = bytearray(made.data)
    data[128 + 62 : 128 + 124] = record(0, b"x" * 50)
    (tmp_path / f"{made.uuid}-ledger-1").write_bytes(data)
    report = verify(open_bucket(url))
    (finding,) = damage(report)
    assert (finding.kind, finding.offset) == ("damaged-records", 128 + 62)
    assert "found entry 0, expected entry 1; entries 1 to 13 cannot be reached" in finding.message
    assert report.entries == 40 - 13


def test_wrong_checksums_are_named_one_by_one_and_then_counted(golden: Path, tmp_path: Path) -> None:
    ref = open_bucket(f"file://{golden}/bucket").ledger(26).ref
    data = bytearray((golden / "bucket" / ref.object("data").key).read_bytes())
    at, entries = 128, []
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        entries.append(at + 12)
        data[at + 12 + length - 1] ^= 1
        at += 12 + length
    (tmp_path / ref.object("data").key).write_bytes(data)
    (tmp_path / ref.object("index").key).write_bytes((golden / "bucket" / ref.object("index").key).read_bytes())
    found = damage(verify(open_bucket(str(tmp_path))))
    assert [finding.offset for finding in found] == [*entries[:20], None]
    assert "entry 0: CRC32C is " in found[0].message
    assert "200 entries in all" in found[-1].message


def test_wrong_padding_and_block_headers_are_found(tmp_path: Path) -> None:
    made = offload([b"x" * 50] * 40, block_size=1000)
    url = put_in_folder(tmp_path, made)
    data = bytearray(made.data)
    data[998] ^= 1
    data[1000 + 27] ^= 1
    (tmp_path / f"{made.uuid}-ledger-1").write_bytes(data)
    found = {finding.kind: (finding.offset, finding.message) for finding in damage(verify(open_bucket(url)))}
    assert found["wrong-padding"][0] == 998
    assert found["wrong-block-header"] == (1000, "the first entry is 15 in the block header, but 14 in the index")


def test_a_copy_that_lost_its_user_metadata_is_damage_on_s3(s3: S3Server, s3_bucket: str) -> None:
    made = offload([b"x"])
    s3.client.put_object(Bucket=s3_bucket, Key=f"{made.uuid}-ledger-1", Body=made.data)
    other = {"S3ManagedLedgerOffloaderFormatVersion": "aws-sdk-s3-1"}
    s3.client.put_object(Bucket=s3_bucket, Key=f"{made.uuid}-ledger-1-index", Body=made.index, Metadata=other)
    found = damage(verify(open_bucket(f"s3://{s3_bucket}", s3.options)))
    assert [finding.kind for finding in found] == ["no-version-key", "no-version-key"]
    assert "lacks s3managedledgeroffloaderformatversion" in found[0].message
    assert "aws-sdk-s3-1" in found[1].message


def test_user_metadata_of_another_topic_is_damage_on_s3(s3: S3Server, s3_bucket: str) -> None:
    made = offload([b"x"])
    for (key, data), topic in zip(made.objects.items(), ("payments", "orders"), strict=True):
        reported = {
            "s3managedledgeroffloaderformatversion": "1",
            "managedledgername": f"public/default/persistent/{topic}",
        }
        s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data, Metadata=reported)
    (finding,) = verify(open_bucket(f"s3://{s3_bucket}", s3.options)).findings
    assert (finding.kind, finding.severity) == ("contradicting-metadata", Severity.DAMAGE)
    assert finding.key == f"{made.uuid}-ledger-1"
    assert "persistent/payments" in finding.message


def test_other_keys_are_counted_and_named_and_no_damage(tmp_path: Path) -> None:
    url = put_in_folder(tmp_path, offload([b"x"]))
    for i in range(7):
        (tmp_path / f"note-{i}").write_bytes(b"")
    report = verify(open_bucket(url), quick=True)
    (finding,) = report.findings
    assert (finding.kind, finding.severity) == ("foreign-keys", Severity.REMARK)
    assert finding.message.startswith("7 keys")
    assert finding.message.endswith("and 2 more")


def test_ledgers_that_are_deleted_meanwhile_end_nothing(tmp_path: Path) -> None:
    gone, short, whole = offload([b"x"], 1, uuid=1), offload([b"x"] * 3, 2, uuid=2), offload([b"x"], 3, uuid=3)
    url = put_in_folder(tmp_path, gone, short, whole)
    (tmp_path / f"{short.uuid}-ledger-2").write_bytes(short.data + b"!")
    buckets = {quick: open_bucket(url) for quick in (False, True)}
    for bucket in buckets.values():
        bucket.load_catalog()
    for made in (gone, short):
        for key in made.objects:
            (tmp_path / key).unlink()
    for quick, bucket in buckets.items():
        report = verify_listed(bucket, bucket.catalog, quick=quick)
        assert not report.is_damaged
        assert "deleted-meanwhile" in kinds(report)
        # Whoever finds an object gone has the bucket listed again.
        assert kinds(verify(bucket)) == []
        assert verify(bucket).entries == 1


def test_padding_behind_the_last_entry_is_found_and_not_guessed(tmp_path: Path) -> None:
    made = offload([b"x" * 30] * 60, block_size=1500)
    index = parse_index(made.index)
    padded = replace(
        made, data=made.data + build_padding(41), index=build_index(replace(index, data_length=len(made.data) + 41))
    )
    bucket = open_bucket(put_in_folder(tmp_path, padded))
    found = {finding.kind: finding.offset for finding in damage(verify(bucket))}
    assert found["wrong-padding"] == len(made.data)
    with pytest.raises(CorruptLedgerError):
        records_of(bucket.ledger(1), 0, 10)
    assert len(bucket.ledger(1).read(0, 59)) == 60


def test_a_lying_header_length_costs_no_memory(tmp_path: Path) -> None:
    made = offload([b"x" * 30])
    index = parse_index(made.index)
    huge = 1 << 31
    lying = replace(index, header_length=huge, data_length=huge + len(made.records))
    url = put_in_folder(tmp_path, replace(made, index=build_index(lying)))
    with (tmp_path / f"{made.uuid}-ledger-1").open("r+b") as sparse:
        sparse.truncate(lying.data_length)
    bucket = open_bucket(url)
    assert verify(bucket).is_damaged
    # What threads of earlier tests still take is in one of them, what this takes in each: windows of 8 MiB, not the 2 GiB.
    assert min(_peak_of_verify(bucket) for _ in range(3)) < 24 << 20


def _peak_of_verify(bucket: Bucket) -> int:
    """Return the most bytes that Python holds while a damaged bucket is verified."""
    tracemalloc.start()
    try:
        assert verify(bucket).is_damaged
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_caller_who_leaves_ends_the_threads(golden_url: str) -> None:
    def progress(what: str, done: int, total: int | None) -> None:
        if what == "verifying":
            raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        verify(open_bucket(golden_url), progress=progress)
    assert threading.active_count() <= before + 1
