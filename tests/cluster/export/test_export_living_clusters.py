"""Exports of a topic that goes on: what one wrote stays, what came since is added, and what nobody can know any more is said."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgerfs import Bucket, export_topic
from ledgerfs.export.export import ExportReport
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.tables.row_files import open_rows
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from tests.cluster.support import live_reads
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages
from tests.cluster.support.live_reads import only_reading
from tests.support.entries import frame, metadata
from tests.support.invoked import run

KINDS = ("parquet", "jsonl", "arrow", "csv")
COMMIT = 21
ENDS = {"open_end": "acknowledged"}
"""An open ledger ends where it is closed, if nothing comes."""
PATIENT = ("-o", "timeout_s=120")
"""For commands: how long servers on a busy machine may say nothing."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path) as made:
        yield made
        assert made.not_reads() == []


def opened(cluster: LiveCluster, **options: Any) -> Bucket:
    return live_reads.opened(cluster, timeout_s=120.0, **options)


def part(chunk: int, name: str = "c") -> bytes:
    """Return a part of a chunked message of two."""
    return frame(metadata(chunked_id=name.encode(), chunks=2, chunked_size=4, chunk=chunk), f"{name}{chunk}".encode())


def exported(cluster: LiveCluster, folder: Path, kind: str = "parquet", topic: str = TOPIC) -> ExportReport:
    with only_reading(cluster):
        return export_topic(opened(cluster).topic(topic), folder, kind, columns=["ledger_id", "entry_id", "value"])


def held(report: ExportReport) -> list[int]:
    return [one.ledger_id for one in report.held]


def values_in(folder: Path) -> list[bytes]:
    """Return the values in the order in which an import reads them."""
    return [
        value if isinstance(value, bytes) else value.encode()
        for batch in open_rows(str(folder)).batches()
        for value in batch["value"].to_pylist()
    ]


def begun_before(cluster: LiveCluster) -> tuple[int, int]:
    """Write a message in two parts, the first one in a closed ledger, the second one in an open one; return both ledgers."""
    first = cluster.write_ledger(TOPIC, [*messages(2, "a"), part(0)])
    second = cluster.roll_over(TOPIC)
    cluster.publish(TOPIC, [part(1), *messages(2, "b")])
    return first, second


def test_a_message_that_began_in_a_trimmed_ledger_stays_when_the_open_one_grows(
    cluster: LiveCluster, tmp_path: Path
) -> None:
    """The file cannot be made again without the trimmed ledger: what came since is missing, by name, and later ledgers are exported."""
    first, second = begun_before(cluster)
    before = [b"a0", b"a1", b"c0c1", b"b0"]
    for kind in KINDS:
        exported(cluster, tmp_path / kind, kind)
        assert values_in(tmp_path / kind) == before, kind
    cluster.trim(TOPIC, first)
    cluster.publish(TOPIC, messages(3, "d"))
    cluster.roll_over(TOPIC)
    cluster.publish(TOPIC, messages(2, "f"))
    for kind in KINDS:
        report = exported(cluster, tmp_path / kind, kind)
        assert (held(report), report.written, report.kept) == ([second], 1, 1), kind
        assert f"would lack rows of deleted ledgers: {first}" in str(report.held[0]), kind
        assert values_in(tmp_path / kind) == [*before, b"f0"], kind


def test_a_ledger_that_is_gone_though_it_was_open_is_reported_of_by_the_command(
    cluster: LiveCluster, tmp_path: Path
) -> None:
    first, second = begun_before(cluster)
    ids = {"transaction_most": 1, "transaction_least": 2}
    cluster.publish(TOPIC, [frame(metadata(**ids), b"late"), *messages(2, "b")])
    command = ("export", cluster.url, TOPIC, str(tmp_path / "out"), *PATIENT)
    run(*command)
    cluster.trim(TOPIC, first)
    cluster.publish(TOPIC, messages(5, first=5))
    reported = run(*command, code=1).stderr.decode()
    assert f"ledger {second}: its file may lack rows, but is not written again" in reported
    cluster.roll_over(TOPIC)
    cluster.trim(TOPIC, second)
    reported = run(*command, code=1).stderr.decode()
    assert f"ledger {second}: it was still open when it was exported up to entry" in reported


@pytest.mark.parametrize("has_next", [True, False])
def test_an_open_ledger_that_is_gone_when_it_is_exported_again_is_reported_of(
    cluster: LiveCluster, tmp_path: Path, *, has_next: bool
) -> None:
    ledger = cluster.write_ledger(TOPIC, messages(5))
    out = tmp_path / "out"
    exported(cluster, out)
    cluster.publish(TOPIC, messages(5, first=5))
    cluster.roll_over(TOPIC)
    cluster.trim(TOPIC, ledger)
    if has_next:
        cluster.publish(TOPIC, messages(3, "n"))
    for _ in range(2):
        assert held(exported(cluster, out)) == [ledger]
    assert values_in(out) == [b"m0", b"m1", b"m2", b"m3", *([b"n0", b"n1"] if has_next else [])]


def test_an_open_ledger_that_was_exported_again_when_it_was_closed_may_go(cluster: LiveCluster, tmp_path: Path) -> None:
    ledger = cluster.write_ledger(TOPIC, messages(5))
    out = tmp_path / "out"
    exported(cluster, out)
    cluster.roll_over(TOPIC)
    cluster.publish(TOPIC, messages(2, "n"))
    exported(cluster, out)
    cluster.offload(TOPIC, ledger)
    exported(cluster, out)
    before = {path: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert exported(cluster, out).written == 0
    assert {path: path.stat().st_mtime_ns for path in out.glob("*.parquet")} == before
    cluster.trim(TOPIC, ledger)
    assert (held(exported(cluster, out)), len(values_in(out))) == ([], 6)


@pytest.mark.parametrize("grows", [False, True])
def test_a_file_that_is_held_when_its_ledger_closes_is_reported_of_only_if_that_had_grown(
    cluster: LiveCluster, tmp_path: Path, *, grows: bool
) -> None:
    first, second = begun_before(cluster)
    command = ("export", cluster.url, TOPIC, str(tmp_path / "out"), *PATIENT, "-o", "open_end=acknowledged")
    run(*command)
    cluster.trim(TOPIC, first)
    if grows:
        cluster.publish(TOPIC, messages(3, "d"))
    cluster.roll_over(TOPIC)
    cluster.publish(TOPIC, messages(2, "n"))
    reported = run(*command, code=int(grows)).stderr.decode()
    assert (f"ledger {second}: its file may lack rows, but is not written again" in reported) == grows
    cluster.trim(TOPIC, second)
    for _ in range(2):
        reported = run(*command, code=int(grows)).stderr.decode()
        assert (f"ledger {second}: it was still open when it was exported" in reported) == grows
    assert values_in(tmp_path / "out") == [b"a0", b"a1", b"c0c1", b"b0", b"b1", b"n0", b"n1"]


def test_ledgers_that_may_have_come_and_gone_between_two_exports_are_reported_of_once(
    cluster: LiveCluster, tmp_path: Path
) -> None:
    made = cluster.write_ledgers(TOPIC, [messages(5), messages(5, "n")])
    cluster.roll_over(TOPIC)
    out = tmp_path / "out"
    exported(cluster, out)
    cluster.publish(TOPIC, messages(5, "u"))
    newest = cluster.roll_over(TOPIC)
    cluster.publish(TOPIC, messages(5, "p"))
    # Brokers trim from the oldest on: while the last ledger of an export is there, all that came after it is.
    cluster.trim(TOPIC, made[0])
    cluster.roll_over(TOPIC)
    assert (held(exported(cluster, out)), len(values_in(out))) == ([], 20)
    for one in cluster.list_of(TOPIC).ledgers[:-1]:
        cluster.trim(TOPIC, one.ledger_id)
    cluster.publish(TOPIC, messages(5, "unseen"))
    last = cluster.list_of(TOPIC).ledgers[-1].ledger_id
    cluster.roll_over(TOPIC)
    cluster.trim(TOPIC, last)
    cluster.publish(TOPIC, messages(2, "q"))
    with pytest.MonkeyPatch.context() as patch:
        # One that fails has told nobody.
        patch.setattr("ledgerfs.export.export._Export.make", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            exported(cluster, out)
    report = exported(cluster, out)
    assert f"ledger {newest}: it was the last ledger of an earlier export, and was deleted" in str(*report.held)
    assert values_in(out)[-1] == b"q0"
    assert exported(cluster, out).held == []


@pytest.mark.parametrize("has_partitions", [False, True])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_ledger_that_cannot_be_listed_now_is_not_said_to_be_gone(
    cluster: LiveCluster, tmp_path: Path, *, is_damaged: bool, has_partitions: bool
) -> None:
    """Its bookies are silent, or its topic's list is damaged: that is told of it, and later on what came behind is exported."""
    name = "public/default/parts-partition-0" if has_partitions else TOPIC
    cluster.write_ledger(name, messages(5))

    def again() -> ExportReport:
        topic = opened(cluster).topic("public/default/parts" if has_partitions else TOPIC)
        return export_topic(topic, tmp_path / "out", "parquet", columns=["value"], on_corrupt="skip")

    again()
    path = managed_ledger_path(managed_ledger_of(name))
    node = cluster.zookeeper.nodes[path]
    if is_damaged:
        cluster.zookeeper.set(path, b"\xff")
    else:
        for one in cluster.bookies:
            one.kill()
    report = again()
    assert ([one.kind.name for one in report.missing], report.held) == (
        ["LIST_UNREADABLE" if is_damaged else "END_UNKNOWN"],
        [],
    )
    cluster.zookeeper.set(path, node)
    for one in () if is_damaged else cluster.bookies:
        one.start()
    cluster.publish(name, messages(5, first=5))
    assert (again().held, len(values_in(tmp_path / "out"))) == ([], 9)


def kill_holders(cluster: LiveCluster, ledger_id: int, entry_id: int, *, others: bool = False) -> None:
    """Kill the bookies that have an entry of the writer's, or those that should have it and have not."""
    for one in cluster.bookies:
        has_it = entry_id in one.entries(ledger_id)
        is_meant = one.address in cluster.written[ledger_id].node.bookies_of(entry_id)
        if has_it != others and is_meant:
            one.kill()


def test_what_is_exported_of_an_open_ledger_stays_when_what_confirmed_it_is_away(
    cluster: LiveCluster, tmp_path: Path
) -> None:
    """An entry in flight, on one bookie alone, tells how far the others are safe: that was true, and nobody knows it while it is away."""
    ledger = cluster.write_ledger(TOPIC, messages(5))
    cluster.append(ledger, messages(1, "flying"), only_on=1)
    out = tmp_path / "out"
    assert exported(cluster, out).held == []
    kill_holders(cluster, ledger, 5)
    for _ in range(2):
        report = exported(cluster, out)
        assert (held(report), report.written, report.kept) == ([ledger], 0, 1)
        assert values_in(out) == [f"m{i}".encode() for i in range(5)]
    for one in cluster.bookies:
        one.start()
    cluster.roll_over(TOPIC)
    cluster.publish(TOPIC, messages(2, "n"))
    assert (exported(cluster, out).held, len(values_in(out))) == ([], 6)


def test_entries_that_a_ledger_was_closed_without_stay_and_are_reported_of(
    cluster: LiveCluster, tmp_path: Path
) -> None:
    """While a bookie is away, one copy was as good as two: its writer was never told so, and the ledger ends before it."""
    ledger = cluster.write_ledger(TOPIC, messages(5))
    cluster.append(ledger, messages(1, "flying"), only_on=1)
    kill_holders(cluster, ledger, 5, others=True)
    command = ("export", cluster.url, TOPIC, str(tmp_path / "out"), *PATIENT, "-o", "open_end=acknowledged")
    run(*command)
    assert values_in(tmp_path / "out")[-1] == b"flying0"
    for one in cluster.bookies:
        one.start()
    cluster.roll_over(TOPIC)
    for _ in range(2):
        reported = run(*command, code=1).stderr.decode()
        assert f"ledger {ledger}: its file may lack rows, but is not written again" in reported
        assert "entries up to 5: the ledger now ends with entry 4" in reported
        assert len(values_in(tmp_path / "out")) == 6


def test_a_listing_that_another_command_has_kept_undoes_no_export(cluster: LiveCluster, tmp_path: Path) -> None:
    cluster.write_ledger(TOPIC, messages(6))
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEDGERFS_CATALOG_MAX_AGE", "600")
        run("count", cluster.url, TOPIC, *PATIENT)
        cluster.publish(TOPIC, messages(100, first=6))
        exported(cluster, out)
        run("export", cluster.url, TOPIC, str(out), "--columns", "ledger_id,entry_id,value", *PATIENT)
    assert len(values_in(out)) == 105


def test_two_exports_at_once_list_one_after_the_other(cluster: LiveCluster, tmp_path: Path) -> None:
    ledger = cluster.write_ledger(TOPIC, messages(6))
    early = opened(cluster).topic(TOPIC)
    assert [one.ref.last_entry for one in early.ledgers] == [4]
    cluster.publish(TOPIC, messages(100, first=6))
    cluster.roll_over(TOPIC)
    out = tmp_path / "out"
    exported(cluster, out)
    report = export_topic(early, out, "parquet", columns=["ledger_id", "entry_id", "value"])
    assert (report.written, report.kept, report.held, len(values_in(out))) == (0, 1, [], 106)
    cluster.trim(TOPIC, ledger)
    cluster.publish(TOPIC, messages(2, "n"))
    assert (exported(cluster, out).written, len(values_in(out))) == (1, 107)


def test_a_bucket_that_is_kept_exports_what_comes_and_reports_what_goes(cluster: LiveCluster, tmp_path: Path) -> None:
    cluster.write_ledger(TOPIC, messages(5))
    bucket, out = opened(cluster), tmp_path / "out"
    for number in range(3):
        report = export_topic(bucket.topic(TOPIC), out, "parquet", columns=["value"])
        assert (report.rows, report.held) == (14 if number else 4, [])
        cluster.publish(TOPIC, messages(5))
        cluster.roll_over(TOPIC)
        cluster.publish(TOPIC, messages(5, "n"))
        for one in cluster.list_of(TOPIC).ledgers[:-2]:
            cluster.trim(TOPIC, one.ledger_id)
    last = cluster.list_of(TOPIC).ledgers[-1].ledger_id
    export_topic(bucket.topic(TOPIC), out, "parquet", columns=["value"])
    cluster.publish(TOPIC, messages(5))
    cluster.roll_over(TOPIC)
    for one in cluster.list_of(TOPIC).ledgers[:-1]:
        cluster.trim(TOPIC, one.ledger_id)
    assert held(export_topic(bucket.topic(TOPIC), out, "parquet", columns=["value"])) == [last]


def test_partitions_are_reported_of_each_for_itself(cluster: LiveCluster, tmp_path: Path) -> None:
    topics = [f"public/default/parts-partition-{i}" for i in range(2)]
    for topic in topics:
        ledger = cluster.write_ledger(topic, messages(3))
    out = tmp_path / "out"
    assert exported(cluster, out, topic="public/default/parts").held == []
    cluster.roll_over(topics[1])
    cluster.trim(topics[1], ledger)
    cluster.publish(topics[0], messages(3))
    report = exported(cluster, out, topic="public/default/parts")
    assert held(report) == [ledger]
