"""The commands over a living cluster: what they tell is true of the moment they were started, and none of them writes to it."""

import json
from pathlib import Path

import pandas as pd
import pytest

from ledgerfs import open_bucket
from ledgerfs.errors import IncompleteCopyError
from ledgerfs.verification.verify import verify
from ledgerfs.writing.copy_ledgers import copy_ledgers
from tests.cluster.support.live_clusters import CLOSED, TOPIC, LiveCluster, messages
from tests.cluster.support.live_reads import entries_of, only_reading, opened, values_of
from tests.support.invoked import output, run
from tests.support.mounts import mounted


@pytest.fixture
def ledgers(cluster: LiveCluster) -> list[int]:
    """Two closed ledgers, the first of them offloaded, too, and an open one."""
    made = cluster.write_ledgers(TOPIC, [messages(500, "a"), messages(300, "b")])
    cluster.roll_over(TOPIC)
    cluster.publish(TOPIC, messages(20, "c"))
    cluster.offload(TOPIC, made[0])
    return [*made, cluster.list_of(TOPIC).ledgers[-1].ledger_id]


def reported_of(cluster: LiveCluster) -> tuple[str, str]:
    """Return the option that says where the cluster's bucket is."""
    return "-o", f"bucket_urls={json.dumps({'tier': cluster.bucket_url()})}"


def ids_of(cluster: LiveCluster, topic: str = TOPIC) -> list[tuple[int, int]]:
    return [(ledger_id, entry_id) for ledger_id, entry_id, _ in cluster.entries_of(topic)]


def test_looking_around(cluster: LiveCluster, ledgers: list[int]) -> None:
    cluster.write_ledger("public/default/empty", ())
    with only_reading(cluster):
        reported = {one["name"]: one for one in json.loads(output("topics", cluster.url, "--json"))}
        assert {name: (one["ledgers"], one["entries"]) for name, one in reported.items()} == {
            "persistent://public/default/empty": (0, 0),
            "persistent://public/default/orders": (3, 819),
        }
        assert json.loads(output("count", cluster.url, TOPIC, "--json", *reported_of(cluster)))[0]["messages"] == 819
        assert json.loads(output("count", cluster.url, "public/default/empty", "--json"))[0]["messages"] == 0
        assert output("ls", cluster.url, "entries/public/default/orders").split() == [
            f"{one}.entries" for one in ledgers
        ]
        assert output("ls", cluster.url, "entries/public/default/empty") == ""
        head = output("head", "-n", "2", cluster.url, TOPIC, *reported_of(cluster))
        assert f"{ledgers[0]}:0" in head
        assert f"{ledgers[0]}:2" not in head
        assert output("head", cluster.url, "public/default/empty") == ""


def test_info_reports_of_bookies(cluster: LiveCluster, ledgers: list[int]) -> None:
    with only_reading(cluster):
        shown = output("info", cluster.url, str(ledgers[1]), *reported_of(cluster))
        assert "BookKeeper" in shown
        assert all(one.address in shown for one in cluster.bookies)
        reported = json.loads(output("info", cluster.url, str(ledgers[2]), "--json"))
        assert (reported["ledger_metadata"]["state"], reported["entries"], reported["blocks"], reported["objects"]) == (
            "OPEN",
            19,
            [],
            {},
        )
    bucket = opened(cluster)
    reported = bucket.ledger(ledgers[0]).describe()
    assert (reported["where"], reported["offload"]["is_complete"], sorted(reported["objects"])) == (
        "bucket",
        True,
        ["data", "index"],
    )


def test_verify_names_what_is_lost_and_what_only_one_place_has(cluster: LiveCluster, ledgers: list[int]) -> None:
    with only_reading(cluster):
        report = verify(opened(cluster))
        assert (report.findings, report.ledgers, report.entries) == ((), 3, 819)
    for bookie in cluster.bookies:
        for ledger_id in ledgers[:2]:
            if 7 in bookie.entries(ledger_id):
                bookie.corrupt(ledger_id, 7)
    # The first ledger is read from the bucket.
    report = verify(opened(cluster))
    assert [(one.kind, one.ledger_id) for one in report.findings] == [("damaged-records", ledgers[1])]
    assert "entry 7 is lost: cannot read entry 7 from any bookie" in report.findings[0].message
    report = verify(opened(cluster, read_from="bookkeeper"))
    assert {(one.kind, one.ledger_id) for one in report.findings} == {
        ("unreadable-copy", ledgers[0]),
        ("damaged-records", ledgers[1]),
    }
    run("verify", cluster.url, *reported_of(cluster), code=1)
    lost = cluster.write_ledger("public/default/lost", messages(5))
    cluster.delete_from_bookkeeper(lost)
    report = verify(opened(cluster))
    assert ("lost-ledger", lost) in [(one.kind, one.ledger_id) for one in report.findings]
    cluster.delete_from_bookkeeper(ledgers[1])
    report = verify(opened(cluster))
    assert [(one.kind, one.ledger_id) for one in report.findings] == [
        ("lost-ledger", lost),
        ("lost-ledger", ledgers[1]),
    ]


def test_closed_ledgers_are_copied_and_an_open_one_is_not(
    cluster: LiveCluster, ledgers: list[int], tmp_path: Path
) -> None:
    target = open_bucket(f"file://{tmp_path}/copy")
    bucket = opened(cluster)
    with pytest.raises(IncompleteCopyError, match="not closed yet, so it cannot be copied"):
        copy_ledgers(bucket, target)
    assert entries_of(target) == [row for row in cluster.entries_of(TOPIC) if row[0] != ledgers[2]]
    # One that was closed after it was listed is longer than it was then.
    catalog = bucket.refresh()
    cluster.roll_over(TOPIC)
    with pytest.raises(IncompleteCopyError, match="not closed yet"):
        copy_ledgers(bucket, target, catalog=catalog)
    report = copy_ledgers(opened(cluster), target)
    assert (report.copied, report.skipped) == (1, 2)
    target.refresh()
    assert entries_of(target) == cluster.entries_of(TOPIC)
    uuids = {one.ref.uuid for one in target.topic(TOPIC).ledgers}
    assert len(uuids) == 3
    assert all(int(one.replace("-", ""), 16) for one in uuids)
    # A broker's own offload of that ledger, and the copy that its offload is of.
    assert {path.name for path in cluster.bucket().iterdir()} <= {path.name for path in (tmp_path / "copy").iterdir()}
    index = next(path for path in cluster.bucket().iterdir() if path.name.endswith("-index"))
    assert (tmp_path / "copy" / index.name).read_bytes() == index.read_bytes()


def test_nothing_is_written_to_a_cluster(cluster: LiveCluster, ledgers: list[int], tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"value": "a"}\n')
    file = f"entries/public/default/orders/{ledgers[1]}.entries"
    with only_reading(cluster):
        for arguments in (
            ("import", str(rows), cluster.url, TOPIC),
            ("repair", cluster.url),
            ("repair", cluster.url, "--yes"),
            ("offload", cluster.bucket_url(), cluster.url),
            ("rm", cluster.url, file, "--yes"),
        ):
            done = run(*arguments, code=2)
            assert len(done.stderr.decode().strip().splitlines()) == 1, done.stderr.decode()
    assert len(entries_of(opened(cluster))) == 819


def test_a_kept_listing_is_as_old_as_it_may_be(cluster: LiveCluster, ledgers: list[int], tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    assert len(entries_of(opened(cluster, cache_dir=cache))) == 819
    cluster.publish(TOPIC, messages(11, "d"))
    kept = opened(cluster, cache_dir=cache, catalog_max_age=600.0)
    # What was listed is read as it was then, though the ledger is longer by now.
    assert len(entries_of(kept)) == 819
    assert len(entries_of(opened(cluster, cache_dir=cache))) == 830
    cluster.roll_over(TOPIC)
    cluster.offload(TOPIC, ledgers[2])
    cluster.delete_from_bookkeeper(ledgers[2])
    assert entries_of(opened(cluster, cache_dir=cache, catalog_max_age=600.0)) == cluster.entries_of(TOPIC)[:830]
    kept = opened(cluster, cache_dir=cache, catalog_max_age=600.0)
    kept.refresh()
    assert entries_of(kept) == cluster.entries_of(TOPIC)


def test_fsspec_and_pandas(cluster: LiveCluster, ledgers: list[int]) -> None:
    storage = {"pulsar+zk": {"bucket_urls": {"tier": cluster.bucket_url()}}}
    with only_reading(cluster):
        table = pd.read_parquet(f"ledger://parquet/public/default/orders::{cluster.url}", storage_options=storage)
    assert list(zip(table["ledger_id"].tolist(), table["entry_id"].tolist(), strict=True)) == ids_of(cluster)[:-1]
    assert ledgers


def test_a_cluster_as_a_folder(cluster: LiveCluster, ledgers: list[int], tmp_path: Path) -> None:
    options = {"bucket_urls": {"tier": cluster.bucket_url()}}
    with only_reading(cluster), mounted(tmp_path / "at", cluster.url, options) as mount:
        names = mount.output("ls entries/public/default/orders").split()
        assert names == [f"{one}.entries" for one in ledgers]
        assert mount.output("cat jsonl/public/default/orders/*.jsonl | wc -l").split() == ["819"]
        for ledger_id in ledgers:
            rows = [payload for ledger, _, payload in cluster.entries_of(TOPIC)[:-1] if ledger == ledger_id]
            records = b"".join(len(one).to_bytes(4) + i.to_bytes(8) + one for i, one in enumerate(rows))
            assert (mount.path / f"entries/public/default/orders/{ledger_id}.entries").read_bytes() == records
        mount.run("echo x > entries/public/default/orders/7.entries", code=None)


def test_logs_of_transactions_are_no_topics(cluster: LiveCluster) -> None:
    """Their entries are no messages: whoever counts or verifies a cluster would call them damage."""
    cluster.write_ledger(TOPIC, messages(5), state=CLOSED)
    for name in ("pulsar/system/__transaction_log_3", "public/default/orders-sub__transaction_pending_ack"):
        cluster.write_ledger(name, [b"no message", b"none either"], state=CLOSED)
    bucket = open_bucket(cluster.url)
    assert [one.managed_ledger for one in bucket.topics()] == ["public/default/persistent/orders"]
    assert "2 transaction logs" in repr(bucket.catalog)
    assert b"also 2 transaction logs" in run("topics", cluster.url).stderr
    run("verify", cluster.url)


def test_a_copy_of_another_cluster_is_not_there_already(tmp_path: Path) -> None:
    """Two clusters may have ledgers of one topic, id and size, such as one that was made anew: the times of their nodes tell them apart."""
    target = str(tmp_path / "backup")
    for number, name in enumerate("ab"):
        with LiveCluster(tmp_path / name) as cluster:
            for ledger in range(2):
                made = 1_700_000_000_000 + number * 10**10 + ledger * 1000
                cluster.write_ledger(TOPIC, messages(5, name), created_ms=made, closed_ms=made + 500)
            cluster.terminate(TOPIC)
            run("offload", cluster.url, target, code=number)
            if not number:
                assert b"there already: 2" in run("offload", cluster.url, target).stdout
    assert {value[:1] for *_, value in values_of(open_bucket(target))} == {b"a"}


def test_an_empty_topic_hides_no_partitions(cluster: LiveCluster) -> None:
    for number in range(2):
        cluster.write_ledger(f"public/default/parts-partition-{number}", messages(5), state=CLOSED)
    cluster.write_ledger("public/default/parts", ())
    topic = open_bucket(cluster.url).topic("public/default/parts")
    assert (topic.is_partitioned, topic.count()) == (True, 10)
