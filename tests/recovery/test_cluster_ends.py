"""Where a lost cluster ends, a ledger in the topic says so: to readers of the bucket, and to whatever is done with it afterwards."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledgerfs import copy_ledgers, open_bucket
from ledgerfs.bucket.partition_plan import plan_partitions
from ledgerfs.errors import IncompleteCopyError, LedgerfsError, MissingLedgerError, UnplacedLedgersWarning
from ledgerfs.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.formats.pulsar_blob.end_uuids import end_uuid, is_end_uuid
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.ledgers.id_blocks import ends_cluster
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.recovery.copies.cluster_ends import end_cluster
from ledgerfs.recovery.planning.planning import plan_topics
from ledgerfs.recovery.running import recovery
from ledgerfs.upkeep.verification import Finding, Severity, verify
from tests.recovery.lost import Clusters, dump_of, two_clusters
from tests.recovery.test_settled_copies import sent
from tests.support.bookie_disks import make_disk, write_log
from tests.support.cluster_ends import cluster_end
from tests.support.ledgers import NAME, put_in_folder
from tests.support.live_clusters import LiveCluster
from tests.support.living_clusters import PATIENCE_S
from tests.support.s3 import S3Server

pytestmark = pytest.mark.process
A, B = "public/default/a", "public/default/b"
COMMIT = 21


@pytest.fixture(name="clusters")
def _clusters(tmp_path: Path) -> Iterator[Clusters]:
    with two_clusters(tmp_path) as made:
        made.rolled(A, sent("open", 1), sent("committed", 2), sent("", 2, marker_type=COMMIT))
        made.rolled(B, sent("plain"))
        yield made


def ends_of(clusters: Clusters, topic: str) -> list[LedgerRef]:
    catalog = open_bucket(clusters.old.bucket_url()).refresh()
    return [ref for ref in catalog.refs_of(managed_ledger_of(topic)) if ends_cluster(ref)]


def values(url: str, topic: str = A) -> list[str]:
    table = open_bucket(url).topic(topic).scan(["value"]).to_table()
    return [value.decode() for value in table["value"].to_pylist()]


def damage(url: str) -> list[Finding]:
    return [one for one in verify(url).findings if one.severity is Severity.DAMAGE]


def go_on(cluster: LiveCluster, topic: str, *entries: bytes) -> int:
    """Have a cluster load a restored topic, and write and offload a ledger of it."""
    ledger_id = cluster.load_restored(topic)
    cluster.append(ledger_id, list(entries))
    cluster.roll_over(topic)
    cluster.offload(topic, ledger_id)
    return ledger_id


def listed(cluster: LiveCluster, topic: str) -> list[int]:
    path = cluster.chroot + managed_ledger_path(managed_ledger_of(topic))
    return [one.ledger_id for one in parse_managed_ledger_info(cluster.nodes[path], key=path).ledgers]


def test_it_lies_between_the_two_clusters_in_each_topic_and_in_no_list(clusters: Clusters) -> None:
    assert clusters.restore().is_well
    (end,) = ends_of(clusters, A)
    assert len(ends_of(clusters, B)) == 1
    assert (end.entries, end.length < 30, end.is_sound) == (1, True, True)
    assert end.uuid == end_uuid(end.ledger_id, managed_ledger_of(A))
    assert end.ledger_id not in listed(clusters.new, A)
    new = go_on(clusters.new, A, sent("of the new", 1), sent("", 1, marker_type=COMMIT))
    assert end.ledger_id >> 32 < new >> 32
    assert values(clusters.old.bucket_url()) == ["committed", "of the new"]
    assert damage(clusters.old.bucket_url()) == []


@pytest.mark.parametrize("lost", ["data", "index", "both"])
def test_one_that_is_lost_while_topics_are_restored_is_told_and_the_next_run_writes_it_again(
    clusters: Clusters, lost: str
) -> None:
    def lose() -> None:
        for path in clusters.old.bucket().glob("*-ledger-2*"):
            is_index = path.name.endswith("-index")
            if len(path.name.removesuffix("-index").rpartition("-")[2]) > 9 and lost != (
                "data" if is_index else "index"
            ):
                path.unlink()

    made = f"{clusters.new.chroot}{managed_ledger_path(managed_ledger_of(A))}"
    clusters.new.zookeeper.at_write = lambda: lose() if made in clusters.new.nodes else None
    found = clusters.restore()
    clusters.new.zookeeper.at_write = None
    assert any("has lost ledger" in str(one.why) for one in found.topics)
    planned = clusters.restore(is_plan=True)
    assert any("tells where the lost cluster ends" in str(one.why) for one in planned.topics)
    again = clusters.restore()
    assert again.is_well
    assert any("is written again" in remark for one in again.topics for remark in one.remarks)
    go_on(clusters.new, A, sent("of the new", 1), sent("", 1, marker_type=COMMIT))
    assert values(clusters.old.bucket_url()) == ["committed", "of the new"]
    assert damage(clusters.old.bucket_url()) == []


def test_a_second_run_writes_none(clusters: Clusters) -> None:
    assert clusters.restore().is_well
    before = ends_of(clusters, A)
    assert clusters.restore().is_well
    assert ends_of(clusters, A) == before


@pytest.mark.parametrize("with_dump", [True, False])
def test_each_cluster_that_is_lost_ends(clusters: Clusters, tmp_path: Path, with_dump: bool) -> None:
    assert clusters.restore().is_well
    go_on(clusters.new, A, sent("open in the second", 1), sent("second"))
    with LiveCluster(tmp_path / "third") as third:
        third.zookeeper.takes_writes = True
        third.buckets = clusters.new.buckets
        dump = dump_of(clusters.new, tmp_path / "dump") if with_dump else None
        found = clusters.restore(into=third, dump=dump)
        assert found.topics[0].done is not None
        # Of the settled copy in the dump's list, or of the ledger itself, the first cluster's are no longer open, or still are.
        assert found.topics[0].done.opened == (1 if with_dump else 2)
        go_on(third, A, sent("third", 1), sent("", 1, marker_type=COMMIT))
    assert len(ends_of(clusters, A)) == 2
    assert values(clusters.old.bucket_url()) == ["committed", "second", "third"]


def test_under_another_name_it_is_there_and_the_former_topic_stays_as_it_was(
    clusters: Clusters, tmp_path: Path
) -> None:
    """A try beside a cluster in use: its transactions go on, in whichever block, and what the other one writes is apart."""
    assert clusters.restore("public/tried/{topic}").is_well
    assert ends_of(clusters, A) == []
    assert len(ends_of(clusters, "public/tried/a")) == 1
    tried = go_on(clusters.new, "public/tried/a", sent("tried", 1), sent("", 1, marker_type=COMMIT))
    clusters.old.advance_ids()
    clusters.rolled(A, sent("late", 1), sent("", 1, marker_type=COMMIT))
    assert values(clusters.old.bucket_url()) == ["open", "committed", "late"]
    assert values(clusters.old.bucket_url(), "public/tried/a") == ["tried"]
    # It is lost in turn: its list names ledgers of the former topic.
    with LiveCluster(tmp_path / "third") as third:
        third.zookeeper.takes_writes = True
        found = clusters.restore(into=third, dump=dump_of(clusters.new, tmp_path / "dump"), topics="public/tried/a")
        (line,) = found.topics
        assert [ref.ledger_id for ref in line.plan.ledgers][-1] == tried
        assert line.done is not None
        assert line.done.opened == 0


def test_a_topic_of_which_there_is_only_the_end_is_none_to_restore(clusters: Clusters, tmp_path: Path) -> None:
    assert clusters.restore("public/tried/{topic}").is_well
    with LiveCluster(tmp_path / "third") as third:
        third.zookeeper.takes_writes = True
        found = clusters.restore(into=third)
        assert {one.plan.source for one in found.topics} == {managed_ledger_of(A), managed_ledger_of(B)}


@pytest.mark.parametrize("with_dump", [True, False])
def test_a_topic_of_which_nothing_is_left_ends_too_since_its_ledgers_may_come_back(
    clusters: Clusters, tmp_path: Path, with_dump: bool
) -> None:
    dump = dump_of(clusters.old, tmp_path / "dump") if with_dump else None
    (lost,) = (path for path in clusters.old.bucket().glob(f"*-ledger-{clusters.old.list_of(A).ledgers[0].ledger_id}"))
    data = lost.read_bytes()
    lost.unlink()
    report = clusters.restore(dump=dump, topics=A)
    assert [(len(one.plan.ledgers), one.done and one.done.outcome.value) for one in report.topics] == [(0, "restored")]
    go_on(clusters.new, A, sent("of the new", 1), sent("", 1, marker_type=COMMIT))
    lost.write_bytes(data)
    assert values(clusters.old.bucket_url()) == ["committed", "of the new"]
    with LiveCluster(tmp_path / "third") as third:
        third.zookeeper.takes_writes = True
        third.buckets = clusters.new.buckets
        assert clusters.restore(into=third, topics=A).topics[0].done is not None
        go_on(third, A, sent("third", 1), sent("", 1, marker_type=COMMIT))
    assert values(clusters.old.bucket_url()) == ["committed", "of the new", "third"]


def test_with_new_ids_there_is_none(clusters: Clusters) -> None:
    clusters.new.write_ledger(B, [sent("there")])
    for ref in open_bucket(clusters.old.bucket_url()).refresh().refs():
        clusters.new.zookeeper.set(f"/ledgers/00/0000/L{ref.ledger_id:04}", b"")
    found = clusters.restore("public/tried/{topic}", gives_new_ids=True)
    assert found.is_well, [one.why for one in found.topics]
    assert ends_of(clusters, "public/tried/a") == []
    made = listed(clusters.new, "public/tried/a")
    refs = [ref for ref in open_bucket(clusters.old.bucket_url()).refresh().refs() if ref.ledger_id in made]
    assert [(ref.is_settled, ref.topic) for ref in refs] == [(True, "persistent://public/tried/a")]
    # At once: there is no settled copy under the former id.
    assert not any(
        ref.is_settled for ref in open_bucket(clusters.old.bucket_url()).refresh().refs_of(managed_ledger_of(A))
    )
    assert values(clusters.old.bucket_url(), "public/tried/a") == ["committed"]


def test_a_run_into_a_cluster_in_use_is_refused_once_its_topics_were_restored_elsewhere(
    clusters: Clusters, tmp_path: Path
) -> None:
    assert clusters.restore(topics=A).is_well
    first = clusters.new.load_restored(A)
    clusters.new.append(first, [sent("under way", 1)])
    clusters.new.roll_over(A)
    clusters.new.offload(A, first)
    with LiveCluster(tmp_path / "tried") as tried:
        tried.zookeeper.takes_writes = True
        assert clusters.restore(into=tried, topics=A).is_well
    before = dict(clusters.new.nodes)
    for is_plan in (True, False):
        found = clusters.restore(topics=B, is_plan=is_plan)
        assert "restored from this bucket into another cluster" in str(found.topics[0].why)
    assert {path for path in clusters.new.nodes if "idgen" in path} == {path for path in before if "idgen" in path}
    # That one is gone.
    end = ends_of(clusters, A)[-1]
    assert f"entries/public/default/a/{end.ledger_id}.entries" in str(found.topics[0].why)
    clusters.lose(end.ledger_id)
    assert clusters.restore(topics=B).is_well
    clusters.new.advance_ids()
    last = clusters.new.list_of(A).ledgers[-1].ledger_id
    clusters.new.append(last, [sent("", 1, marker_type=COMMIT)])
    clusters.new.roll_over(A)
    clusters.new.offload(A, last)
    assert values(clusters.old.bucket_url()) == ["committed", "under way"]


# What is done with the bucket afterwards.


COPIED: list[dict[str, Any]] = [
    {},
    {"new_uuid": True},
    {"recompress": "lz4"},
    {"unbatch": True},
    {"block_size": 2 << 20},
]


def test_a_copy_of_the_bucket_reads_as_the_bucket(clusters: Clusters, tmp_path: Path) -> None:
    assert clusters.restore().is_well
    go_on(clusters.new, A, sent("of the new", 1), sent("", 1, marker_type=COMMIT))
    for number, options in enumerate(COPIED):
        target = tmp_path / f"copy-{number}"
        target.mkdir()
        report = copy_ledgers(clusters.old.bucket_url(), f"file://{target}", **options)
        assert report.failed == [], options
        assert values(f"file://{target}") == ["committed", "of the new"], options
        assert damage(f"file://{target}") == [], options
        again = copy_ledgers(clusters.old.bucket_url(), f"file://{target}", **options)
        assert (again.copied, again.failed) == (0, []), options


def test_a_copy_through_fsspec_is_one(clusters: Clusters, tmp_path: Path) -> None:
    assert clusters.restore().is_well
    go_on(clusters.new, A, sent("of the new", 1), sent("", 1, marker_type=COMMIT))
    fs = LedgerFileSystem(fo=clusters.old.bucket_url())
    paths = [path for path in fs.ls("entries/public/default/a", detail=False) if "@" not in path]
    for number, path in enumerate(
        sorted(paths, key=lambda path: int(path.rpartition("/")[2].removesuffix(".entries")))
    ):
        fs.copy(path, f"entries/public/default/copied/{2**40 + number}.entries")
    assert values(clusters.old.bucket_url(), "public/default/copied") == ["committed", "of the new"]


def test_what_expires_in_the_new_cluster_tells_no_other_outcome(clusters: Clusters) -> None:
    """Its brokers delete what its list names: the settled copy, and never the end."""
    assert clusters.restore().is_well
    go_on(clusters.new, A, sent("of the new", 1), sent("", 1, marker_type=COMMIT))
    bucket = open_bucket(clusters.old.bucket_url())
    (settled,) = [ref for ref in bucket.refresh().refs() if ref.is_settled]
    for _, stat in settled.objects:
        (clusters.old.bucket() / stat.key).unlink()
    assert values(clusters.old.bucket_url()) == ["committed", "of the new"]


def test_two_that_write_the_same_one_write_the_same_bytes(tmp_path: Path, s3: S3Server, s3_bucket: str) -> None:
    for bucket in (open_bucket(put_in_folder(tmp_path)), open_bucket(f"s3://{s3_bucket}", s3.options)):
        first = end_cluster(bucket, NAME, 2**32, 1_700_000_000_000)
        assert end_cluster(bucket, NAME, 2**32, 1_700_000_000_000).objects == first.objects
        assert ends_cluster(first)
        other = end_cluster(bucket, "public/default/persistent/other", 2**32, 1)
        assert other.uuid != first.uuid
        assert bucket.refresh().ledgers.size == 2


def test_of_two_settled_copies_that_differ_none_is_taken_for_the_ledger(clusters: Clusters, tmp_path: Path) -> None:
    """Between two recoveries the end of a transaction came; then the ledger itself was lost."""
    first = clusters.old.list_of(A).ledgers[0].ledger_id
    assert clusters.restore(topics=A).is_well
    clusters.rolled(A, sent("", 1, marker_type=COMMIT))
    with LiveCluster(tmp_path / "third") as third:
        third.zookeeper.takes_writes = True
        assert clusters.restore("public/drill/{topic}", into=third, topics=A).is_well
    url = clusters.old.bucket_url()
    assert values(url) == ["open", "committed"]
    for ref in open_bucket(url).refresh().all_of(first):
        for _, stat in ref.objects if not ref.is_settled else ():
            (clusters.old.bucket() / stat.key).unlink()
    with pytest.raises(MissingLedgerError, match="two copies of it have different entries"):
        values(url)
    assert [(one.kind, one.ledger_id) for one in damage(url)] == [("contradicting-copy", first)]
    plan = next(one for one in plan_topics(open_bucket(url).refresh()) if one.source == managed_ledger_of(A))
    assert first not in {ref.ledger_id for ref in plan.ledgers}
    assert [part.first_ledger for part in plan.missing] == [first]
    (tmp_path / "copy").mkdir()
    with pytest.raises(IncompleteCopyError, match=f"2 of 6 ledgers are not copied; .*-ledger-{first}: another copy"):
        copy_ledgers(url, str(tmp_path / "copy"))
    assert first not in {ref.ledger_id for ref in open_bucket(str(tmp_path / "copy")).refresh().refs()}


def test_the_name_tells_it() -> None:
    # The example of the documentation.
    assert end_uuid(2**32, NAME) == "b76adfd9-13a1-5161-a63e-0df491790a15"
    assert is_end_uuid("b76adfd9-13a1-5161-a63e-0df491790a15", 2**32)
    assert not is_end_uuid("b76adfd9-13a1-5161-a63e-0df491790a15", 2**32 + 1)
    assert cluster_end(2**32).uuid == end_uuid(2**32, NAME)


# Who comes late, or at once, or loses something.


def test_a_late_ledger_is_the_lost_clusters_whatever_was_there_before_it(clusters: Clusters) -> None:
    assert clusters.restore().is_well
    go_on(clusters.new, B, sent("of the new", 1), sent("", 1, marker_type=COMMIT))
    clusters.rolled(B, sent("late and open", 1), sent("late"))
    assert values(clusters.old.bucket_url(), B) == ["plain", "late", "of the new"]
    assert "not in its list" in str(clusters.restore().topics[1].why)


@pytest.mark.parametrize("loss", ["data", "index", "cut off", "index just now"])
def test_an_end_that_lost_something_is_one_to_a_recovery(clusters: Clusters, tmp_path: Path, loss: str) -> None:
    assert clusters.restore(topics=A).is_well
    go_on(clusters.new, A, sent("of the new", 1), sent("", 1, marker_type=COMMIT))
    (end,) = ends_of(clusters, A)
    data, index = (clusters.old.bucket() / stat.key for _, stat in end.objects)
    if loss == "cut off":
        data.write_bytes(data.read_bytes()[:-3])
    else:
        (data if loss == "data" else index).unlink()
    if loss == "index just now":
        # It counts as one that is being written, and what it says is known by its name.
        with pytest.warns(UnplacedLedgersWarning, match="uploaded just now"):
            assert values(clusters.old.bucket_url()) == ["committed", "of the new"]
    else:
        for path in clusters.old.bucket().glob("*-ledger-*"):
            os.utime(path, (1.7e9, 1.7e9))
        with pytest.raises(LedgerfsError):
            values(clusters.old.bucket_url())
    # Who skips what is damaged, and a file or a part of a ledger, miss none of what it says.
    bucket = open_bucket(clusters.old.bucket_url())
    topic = bucket.topic(A)
    assert topic.scan(["value"], on_corrupt="skip").to_table()["value"].to_pylist() == [b"committed", b"of the new"]
    wanted = bucket.catalog.ledgers["name"] == bucket.catalog.row_of(managed_ledger_of(A))
    runs = [run for part in plan_partitions(bucket.catalog, wanted, 1) for run in part.runs]
    tables = [run.scan(bucket, columns=["value"], on_corrupt="skip").to_table() for run in runs]
    assert [one for table in tables for one in table["value"].to_pylist()] == [b"committed", b"of the new"]
    first = min(ref.ledger_id for ref in topic.bucket.catalog.refs_of(managed_ledger_of(A)))
    lines = LedgerFileSystem(fo=clusters.old.bucket_url()).cat(f"jsonl/public/default/a/{first}.jsonl")
    assert [json.loads(line)["value"] for line in lines.splitlines()] == ["committed"]
    with LiveCluster(tmp_path / "third") as third:
        third.zookeeper.takes_writes = True
        (line,) = clusters.restore(into=third, topics=A).topics
        assert line.done is not None
        assert (line.done.opened, line.done.hidden, line.plan.missing) == (1, 0, ())
    with LiveCluster(tmp_path / "fourth") as fourth:
        # A topic of which there is only that is still none.
        fourth.zookeeper.takes_writes = True
        clusters.restore("public/tried/{topic}", into=fourth, topics=A)
        (tried,) = ends_of(clusters, "public/tried/a")
        (clusters.old.bucket() / tried.objects[0][1].key).unlink()
        assert [one.plan.topic for one in clusters.restore(into=fourth, is_plan=True).topics] == [
            "persistent://public/default/a",
            "persistent://public/default/b",
        ]


def test_what_a_lost_cluster_left_open_is_over_to_readers_of_the_next(clusters: Clusters) -> None:
    assert clusters.restore().is_well
    go_on(clusters.new, A, sent("of the new"), sent("may still end", 1), sent("behind"))
    topic = open_bucket(clusters.old.bucket_url()).topic(A)
    table = topic.scan(["value"], transactions="readable").to_table()
    assert table["value"].to_pylist() == [b"committed", b"of the new"]


def test_a_deleted_topic_is_no_younger_for_an_end(clusters: Clusters, tmp_path: Path) -> None:
    gone = clusters.rolled("public/default/gone", sent("gone"))
    path = clusters.old.chroot + managed_ledger_path(managed_ledger_of("public/default/gone"))
    clusters.old.zookeeper.delete(path)
    dump = dump_of(clusters.old, tmp_path / "dump")
    with LiveCluster(tmp_path / "tried") as tried:
        tried.zookeeper.takes_writes = True
        assert clusters.restore(into=tried, topics="public/default/gone").is_well
    (line,) = clusters.restore(dump=dump, topics="public/default/gone").topics
    assert "had deleted it" in str(line.why)
    assert gone


def test_another_cluster_with_a_topic_of_this_name_is_not_refused(clusters: Clusters, tmp_path: Path) -> None:
    """Its topic is another one, of another bucket or of none."""
    assert clusters.restore().is_well
    with LiveCluster(tmp_path / "third", first_ledger_id=1) as third:
        third.zookeeper.takes_writes = True
        third.write_ledger(A, [sent("its own")])
        found = clusters.restore("public/restored/{topic}", into=third)
        assert found.is_well, [one.why for one in found.topics]


def test_what_a_cluster_is_given_while_its_topics_are_restored_elsewhere_is_told(
    clusters: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clusters.restore(topics=A).is_well
    go_on(clusters.new, A, sent("of the new"))
    advance = recovery.advance_ids
    with LiveCluster(tmp_path / "other") as other:
        other.zookeeper.takes_writes = True

        def met(*arguments: Any) -> Any:
            made = advance(*arguments)
            monkeypatch.setattr(recovery, "advance_ids", advance)
            assert clusters.restore(into=other, topics=A).is_well
            return made

        monkeypatch.setattr(recovery, "advance_ids", met)
        (line,) = clusters.restore(topics=B).topics
    assert "restored from this bucket into another cluster" in str(line.why)


@pytest.mark.parametrize("backed_up", ["never", "before", "afterwards"])
def test_a_restored_cluster_is_not_copied_without_where_the_lost_one_ends(
    clusters: Clusters, tmp_path: Path, backed_up: str
) -> None:
    backup = f"file://{tmp_path / 'backup'}"
    if backed_up == "before":
        copy_ledgers(clusters.old.bucket_url(), backup)
    assert clusters.restore().is_well
    if backed_up == "afterwards":
        copy_ledgers(clusters.old.bucket_url(), backup)
    go_on(clusters.new, A, sent("of the new", 1), sent("", 1, marker_type=COMMIT))
    living = open_bucket(
        clusters.new.url, {"timeout_s": PATIENCE_S, "bucket_urls": {"tier": clusters.old.bucket_url()}}
    )
    report = copy_ledgers(living, backup, topics=[A], allow_incomplete=True)
    told = [str(one.error) for one in report.failed]
    wanted = {"never": ["a settled copy"], "before": ["a settled copy", "where that ends"], "afterwards": []}[backed_up]
    assert len(told) == len(wanted)
    assert all(why in one for why, one in zip(wanted, told, strict=True)), told
    assert copy_ledgers(clusters.old.bucket_url(), backup).failed == []
    assert values(backup) == ["committed", "of the new"]


def test_what_goes_on_from_a_restored_cluster_needs_the_end_in_the_copy(clusters: Clusters, tmp_path: Path) -> None:
    """Its brokers have trimmed all that was restored, so that no settled copy is in its list."""
    backup = f"file://{tmp_path / 'backup'}"
    copy_ledgers(clusters.old.bucket_url(), backup)
    assert clusters.restore().is_well
    go_on(clusters.new, A, sent("of the new", 1), sent("", 1, marker_type=COMMIT))
    clusters.new.change_list(A, lambda info: replace(info, ledgers=info.ledgers[1:]))
    living = open_bucket(
        clusters.new.url, {"timeout_s": PATIENCE_S, "bucket_urls": {"tier": clusters.old.bucket_url()}}
    )
    report = copy_ledgers(living, backup, topics=[A], allow_incomplete=True)
    assert ["tells where that ends" in str(one.error) for one in report.failed] == [True]
    assert copy_ledgers(clusters.old.bucket_url(), backup).failed == []
    assert copy_ledgers(living, backup, topics=[A]).failed == []
    assert values(backup) == ["committed", "of the new"]
    # Where there is nothing of the lost cluster, there is nothing to part.
    assert copy_ledgers(living, f"file://{tmp_path / 'fresh'}", topics=[A]).copied == 1


def test_an_empty_topic_beside_partitions_of_its_name_hides_none_of_them(clusters: Clusters, tmp_path: Path) -> None:
    clusters.rolled("public/default/p-partition-0", sent("kept"))
    clusters.old.write_ledger("public/default/p", ())
    dump = dump_of(clusters.old, tmp_path / "dump")
    assert clusters.restore(dump=dump).is_well
    assert values(clusters.old.bucket_url(), "public/default/p") == ["kept"]


def test_a_bucket_from_before_an_earlier_recovery_is_not_taken_for_the_one_after_it(
    clusters: Clusters, tmp_path: Path
) -> None:
    before = {path.name: path.read_bytes() for path in clusters.old.bucket().glob("*-ledger-*")}
    assert clusters.restore().is_well
    go_on(clusters.new, A, sent("of the new", 1), sent("", 1, marker_type=COMMIT))
    dump = dump_of(clusters.new, tmp_path / "dump")
    (end,) = ends_of(clusters, A)
    lost = [ref for ref in open_bucket(clusters.old.bucket_url()).refresh().refs() if ref.is_settled]
    kept = {stat.key: (clusters.old.bucket() / stat.key).read_bytes() for _, stat in end.objects}
    for key in [stat.key for ref in (*lost, end) for _, stat in ref.objects]:
        (clusters.old.bucket() / key).unlink()
    assert before.keys() <= {path.name for path in clusters.old.bucket().iterdir()}
    with LiveCluster(tmp_path / "third") as third:
        third.zookeeper.takes_writes = True
        (line,) = clusters.restore(into=third, dump=dump, topics=A).topics
        assert "names a settled copy of ledger" in str(line.why)
        for key, data in kept.items():
            (clusters.old.bucket() / key).write_bytes(data)
        (line,) = clusters.restore(into=third, dump=dump, topics=A).topics
        assert line.done is not None
        assert line.done.opened == 1


def test_disks_of_a_restored_cluster_need_the_end_in_the_copy(clusters: Clusters, tmp_path: Path) -> None:
    backup = f"file://{tmp_path / 'backup'}"
    copy_ledgers(clusters.old.bucket_url(), backup)
    assert clusters.restore().is_well
    ledger_id = clusters.new.load_restored(A)
    clusters.new.append(ledger_id, [sent("of the new", 1), sent("", 1, marker_type=COMMIT)])
    clusters.new.roll_over(A)
    dump_of(clusters.new, tmp_path / "dump")
    paths = []
    for number, bookie in enumerate(clusters.new.bookies):
        stored = [one for ledger in bookie.ledgers for one in bookie.entries(ledger).values()]
        write_log(make_disk(tmp_path / f"disk-{number}", bookie.address), 0, stored)
        paths.append(str(tmp_path / f"disk-{number}"))
    disks = open_bucket(f"bookies://{','.join(paths)}", {"metadata": str(tmp_path / "dump")})
    report = copy_ledgers(disks, backup, topics=[A], allow_incomplete=True)
    assert ["tells where that ends" in str(one.error) for one in report.failed] == [True]
    assert copy_ledgers(clusters.old.bucket_url(), backup).failed == []
    assert copy_ledgers(disks, backup, topics=[A]).copied == 1
    assert values(backup) == ["committed", "of the new"]
