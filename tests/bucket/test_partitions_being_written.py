"""Partitions whose only ledgers are just being written: there is nothing to read of them, and every read of their topic tells of them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ledgerfs import copy_ledgers, open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import IncompleteCopyError, NotFoundError, UnplacedLedgersWarning
from ledgerfs.export.export import export_topic
from ledgerfs.fuse_mount.operations import MountedBucket, MountOptions
from ledgerfs.scan.options import ScanOptions
from ledgerfs.spark.source.planning import look_for_missing
from tests.support.entries import frame, metadata
from tests.support.invoked import run
from tests.support.lacking import key_of, lossy_s3
from tests.support.ledgers import CREATED_MS, NAME, offload, put_in_folder
from tests.support.mapfile_buckets import mapfile, messages, put_file
from tests.support.s3 import S3Server

TOPIC = "persistent://public/default/orders"


def message(value: str) -> bytes:
    return frame(metadata(publish_time_ms=CREATED_MS), value.encode())


def reads(folder: Path) -> Sequence[Callable[[Bucket], Any]]:
    """Reads of the topic, each of which returns 1."""
    return [
        lambda bucket: bucket.topic(TOPIC).count(),
        lambda bucket: bucket.topic(TOPIC).scan(order="publish_time").to_arrow().num_rows,
        lambda bucket: export_topic(bucket.topic(TOPIC), folder / "out", "jsonl").written,
        lambda bucket: len(look_for_missing(bucket, bucket.catalog, TOPIC, None, ScanOptions())) + 1,
        lambda bucket: len(look_for_missing(bucket, bucket.catalog, None, ".*orders.*", ScanOptions())) + 1,
        lambda bucket: len(look_for_missing(bucket, bucket.catalog, None, None, ScanOptions())) + 1,
        lambda bucket: copy_ledgers(bucket, f"file://{folder}/copy", topics=TOPIC, allow_incomplete=True).copied,
    ]


@pytest.fixture(params=["-partition-1", ""])
def growing(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Partition 0 is whole; of another one, or of exactly the topic's name, only the beginning of a MapFile is there, in a young file."""
    folder = tmp_path / "bucket"
    folder.mkdir()
    put_in_folder(folder, offload([message("0")], 1, name=f"{NAME}-partition-0"))
    made = mapfile(messages(2, 200, 300), 2, name=NAME + request.param)
    put_file(folder / made.folder / "data", made.data[:3000], None)
    return f"file://{folder}", TOPIC + request.param


def test_every_read_reports_of_a_partition_that_is_just_being_written(growing: tuple[str, str], tmp_path: Path) -> None:
    url, owner = growing
    reported = f"probably still being uploaded and are not read yet \\(ledger 2 of {owner}\\)"
    for read in reads(tmp_path):
        with pytest.warns(UnplacedLedgersWarning, match=reported):
            assert read(open_bucket(url)) == 1
    assert open_bucket(url).topic(TOPIC).missing == ()
    with (
        pytest.raises(IncompleteCopyError, match="1 of 2 ledgers are not copied"),
        pytest.warns(UnplacedLedgersWarning),
    ):
        copy_ledgers(url, f"file://{tmp_path}/copy", topics=TOPIC)


def test_commands_and_mounts_tell_of_it_too(
    growing: tuple[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url, owner = growing
    reported = f"(ledger 2 of {owner})"
    for command in (["topics", url], ["count", url], ["count", url, TOPIC], ["head", "-n", "1", url, TOPIC]):
        assert reported in run(*command).stderr.decode(), command
    done = run("offload", url, str(tmp_path / "copy"), "--topic", TOPIC, code=1)
    assert "failed: 1" in done.stdout.decode()
    assert (
        f"{owner.removeprefix('persistent://').replace('default/', 'default/persistent/')}/2-" in done.stderr.decode()
    )
    caplog.clear()
    mounted = MountedBucket(open_bucket(url), MountOptions())
    assert reported in caplog.text
    caplog.clear()
    mounted.refresh()
    assert not caplog.records


def test_a_topic_that_is_only_being_written_is_not_there_yet(tmp_path: Path) -> None:
    made = mapfile(messages(2, 200, 300), 2, name=f"{NAME}-partition-1")
    put_file(tmp_path / made.folder / "data", made.data[:3000], None)
    bucket = open_bucket(f"file://{tmp_path}")
    reported = rf"but 1 ledgers are probably still being uploaded.*ledger 2 of {TOPIC}-partition-1\)"
    for name in (TOPIC, f"{TOPIC}-partition-1"):
        with pytest.raises(NotFoundError, match=f"no ledger of this topic in the bucket, {reported}"):
            bucket.topic(name)
    with pytest.raises(NotFoundError, match=f"no topic name in the bucket matches this pattern, {reported}"):
        look_for_missing(bucket, bucket.catalog, None, ".*orders.*", ScanOptions())
    assert bucket.topics() == []


def test_a_young_object_without_an_index_is_reported_of_by_its_user_metadata(s3: S3Server, s3_bucket: str) -> None:
    place = lossy_s3(s3, s3_bucket)
    for number in (0, 1):
        name = f"{NAME}-partition-{number}"
        made = offload([message(str(number))], number, uuid=number + 1, name=name)
        place.put(made, name=name)
    place.lose(key_of(made, "-index"))
    topic = place.open().topic(TOPIC)
    assert [partition.name for partition in topic.partitions] == [f"{TOPIC}-partition-0", f"{TOPIC}-partition-1"]
    with pytest.warns(UnplacedLedgersWarning, match=f"ledger 1 of {TOPIC}-partition-1"):
        assert topic.count() == 1
    place.put(made, name=name)
    assert place.open().topic(TOPIC).count() == 2
