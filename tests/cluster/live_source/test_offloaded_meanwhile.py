"""Ledgers that move, or go, while a topic is read: each message comes once from wherever it is, or a sentence says where it went."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import (
    CorruptIndexError,
    CorruptLedgerError,
    CorruptMetadataError,
    LedgerfsError,
    MissingLedgerError,
    NotFoundError,
    StaleObjectError,
    StoreUnreachableError,
    UnsupportedFormatError,
)
from ledgerfs.storage.retries import TIMEOUT_VARIABLE
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, OffloadContext
from ledgerfs_cluster.live_source import offloaded_copies, reader
from ledgerfs_cluster.zookeeper.living_cluster import LiveReading
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages
from tests.cluster.support.live_reads import entries_of, in_the_middle, only_reading, opened, values_of
from tests.support.each import for_each

pytestmark = pytest.mark.usefixtures("impatient")

PLACES = pytest.mark.parametrize("read_from", ["bucket", "bookkeeper"])
DRIVERS = pytest.mark.parametrize("driver", ["aws-s3", "filesystem"])
COUNT = 700
LIST = "/managed-ledgers/public/default/persistent/orders"


@cache
def payloads(number: int, size: int = 2000) -> list[bytes]:
    """Return the entries of a ledger of several windows."""
    return messages(COUNT, f"{number}.", size=size)


@pytest.fixture
def ledgers(cluster: LiveCluster) -> list[int]:
    """Three closed ledgers of several windows each, and an open one."""
    return ledgers_in(cluster, TOPIC)


def ledgers_in(cluster: LiveCluster, topic: str) -> list[int]:
    made = cluster.write_ledgers(topic, [payloads(i) for i in range(3)])
    cluster.roll_over(topic)
    cluster.publish(topic, messages(1, "open"))
    cluster.publish(topic, messages(1, "confirms"))
    return made


def expected_of(cluster: LiveCluster, topic: str = TOPIC) -> list[tuple[int, int, bytes]]:
    return cluster.entries_of(topic)[:-1]


def read_with(
    bucket: Bucket, after: int, then: Callable[[], None], on_damage: object = None, topic: str = TOPIC
) -> list[tuple[int, int, bytes]]:
    """Read a topic batch by batch; behind some of them something happens."""

    def batches() -> Iterator[list[tuple[int, int, bytes]]]:
        for one in bucket.topic(topic).ledgers:
            for batch in one.batches(0, one.last_entry, on_damage):  # type: ignore[arg-type]
                yield [(one.ref.ledger_id, i, bytes(data)) for i, data in batch]

    return [row for batch in in_the_middle(batches(), after, then) for row in batch]


def no_damage(*reported: object) -> None:
    raise AssertionError(reported)


def context_of(cluster: LiveCluster, ledger_id: int) -> OffloadContext:
    (found,) = [one.context for one in cluster.list_of(TOPIC).ledgers if one.ledger_id == ledger_id]
    assert found is not None
    return found


def set_context(cluster: LiveCluster, ledger_id: int, **changes: object) -> None:
    changed = replace(context_of(cluster, ledger_id), **changes)  # type: ignore[arg-type]
    cluster.change_ledger(TOPIC, ledger_id, lambda info: replace(info, context=changed))


def objects_of(cluster: LiveCluster, bucket: str = "tier") -> list[Path]:
    return sorted(cluster.bucket(bucket).glob("*-ledger-*"))


# Where ledgers are when they are listed.


@PLACES
def test_ledgers_in_both_places_come_from_the_one_that_is_wanted(
    cluster: LiveCluster, ledgers: list[int], read_from: str
) -> None:
    for ledger_id in ledgers[:2]:
        cluster.offload(TOPIC, ledger_id)
    bucket = opened(cluster, read_from=read_from)
    assert bucket.topics()
    for bookie in cluster.bookies:
        bookie.asked.clear()
    with only_reading(cluster):
        assert entries_of(bucket) == expected_of(cluster)
    asked = {one.ledger_id for bookie in cluster.bookies for one in bookie.asked} & set(ledgers)
    assert asked == ({ledgers[2]} if read_from == "bucket" else set(ledgers))
    where = "bucket" if read_from == "bucket" else "BookKeeper"
    assert [bucket.ledger(one).describe()["where"] for one in ledgers] == [where, where, "BookKeeper"]


@PLACES
@DRIVERS
def test_ledgers_that_are_only_in_a_bucket(
    cluster: LiveCluster, ledgers: list[int], read_from: str, driver: str
) -> None:
    for ledger_id in ledgers:
        cluster.offload(TOPIC, ledger_id, driver=driver)
        cluster.delete_from_bookkeeper(ledger_id)
    with only_reading(cluster):
        assert entries_of(opened(cluster, read_from=read_from)) == expected_of(cluster)


def test_two_buckets_of_one_topic(cluster: LiveCluster, ledgers: list[int]) -> None:
    for ledger_id, name in zip(ledgers, ("tier", "old", "tier"), strict=True):
        cluster.offload(TOPIC, ledger_id, bucket=name)
        cluster.delete_from_bookkeeper(ledger_id)
    assert entries_of(opened(cluster)) == expected_of(cluster)
    # A bucket that has another name here than there.
    moved = cluster.buckets / "moved"
    cluster.bucket("old").rename(moved)
    with pytest.raises(LedgerfsError):
        entries_of(opened(cluster, bucket_urls={"tier": cluster.bucket_url(), "old": cluster.bucket_url("old")}))
    urls = {"tier": cluster.bucket_url(), "old": f"file://{moved}"}
    assert entries_of(opened(cluster, bucket_urls=urls)) == expected_of(cluster)


NAMED = {"bucket": "b"}


@for_each(
    ("driver", "properties", "urls", "expected"),
    [
        ("aws-s3", NAMED, {}, "s3://b"),
        ("S3", NAMED, {}, "s3://b"),
        (None, {**NAMED, "managedLedgerOffloadDriver": "AWS_S3"}, {}, "s3://b"),
        ("aliyun-oss", NAMED, {}, "s3://b"),
        ("google-cloud-storage", NAMED, {}, "gs://b"),
        ("azureblob", NAMED, {}, "abfs://b"),
        ("tape", NAMED, {"b": "s3://moved"}, "s3://moved"),
        ("tape", NAMED, {}, "offloaded with driver 'tape'"),
        ("aws-s3", {}, {}, "offloaded with driver 'aws-s3'"),
        ("filesystem", {"storageBasePath": "hdfs://n/x"}, {}, "hdfs://n/x"),
        # As Java writes it; the root is not the working directory.
        *(("filesystem", {"storageBasePath": f"file:{one}x"}, {}, "file:///x") for one in ("/", "///", "////")),
        ("filesystem", {"storageBasePath": "file://"}, {}, "file:///"),
        ("filesystem", {"storageBasePath": "/x"}, {"/x": "hdfs://n/x"}, "hdfs://n/x"),
        *(("filesystem", {"storageBasePath": one}, {}, "with the option bucket_urls") for one in ("pulsar", "/x", "")),
    ],
)
def test_where_the_objects_of_an_offload_are(
    driver: str | None, properties: dict[str, str], urls: dict[str, str], expected: str
) -> None:
    context = OffloadContext(str(UUID(int=7)), True, False, 1, driver, tuple(properties.items()))
    reading = LiveReading(bucket_urls=urls)

    def found() -> str:
        return offloaded_copies._place_of("t/n/persistent/x", LedgerInfo(7, 3, 30, 1, context), reading).url

    if "://" in expected or expected == "file:///":
        assert found() == expected
    else:
        with pytest.raises(UnsupportedFormatError, match=expected):
            found()


def test_what_a_broker_noted_of_a_store_is_used_unless_the_user_says_otherwise() -> None:
    noted = (("bucket", "b"), ("serviceEndpoint", "http://s"), ("region", "r"))
    info = LedgerInfo(7, 3, 30, 1, OffloadContext(str(UUID(int=7)), True, False, 1, "aws-s3", noted))
    found = offloaded_copies._place_of("t/n/persistent/x", info, LiveReading(bucket_options={"key": "k"}))
    assert found.options == {"endpoint_url": "http://s", "client_kwargs": {"region_name": "r"}, "key": "k"}
    reading = LiveReading(bucket_options={"endpoint_url": "http://t"})
    assert offloaded_copies._place_of("t/n/persistent/x", info, reading).options["endpoint_url"] == "http://t"


def test_a_folder_without_its_index_is_a_ledger_and_one_without_its_data_is_none(
    cluster: LiveCluster, ledgers: list[int]
) -> None:
    cluster.offload(TOPIC, ledgers[0], driver="filesystem", objects=("data",))
    cluster.offload(TOPIC, ledgers[1], driver="filesystem", objects=("index",))
    cluster.delete_from_bookkeeper(ledgers[0])
    assert entries_of(opened(cluster)) == expected_of(cluster)
    cluster.delete_from_bookkeeper(ledgers[1])
    with pytest.raises(NotFoundError, match="BookKeeper no longer has it, and the object file:"):
        entries_of(opened(cluster))


def test_a_folder_that_was_cut_off_is_not_taken_for_the_ledger(cluster: LiveCluster, ledgers: list[int]) -> None:
    uuid = cluster.offload(TOPIC, ledgers[0], driver="filesystem")
    data = cluster.bucket() / "public/default/persistent/orders" / f"{ledgers[0]}-{uuid}" / "data"
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    assert entries_of(opened(cluster)) == expected_of(cluster)
    cluster.delete_from_bookkeeper(ledgers[0])
    with pytest.raises(LedgerfsError):
        entries_of(opened(cluster))


@PLACES
def test_an_offload_that_failed_or_goes_on(cluster: LiveCluster, ledgers: list[int], read_from: str) -> None:
    cluster.offload(TOPIC, ledgers[0], is_complete=False, objects=("data",))
    cluster.offload(TOPIC, ledgers[1], is_complete=False, objects=())
    cluster.offload(TOPIC, ledgers[2], is_complete=False)
    with only_reading(cluster):
        assert entries_of(opened(cluster, read_from=read_from)) == expected_of(cluster)


@PLACES
def test_flagged_as_deleted_and_still_there(cluster: LiveCluster, ledgers: list[int], read_from: str) -> None:
    cluster.offload(TOPIC, ledgers[0])
    cluster.delete_from_bookkeeper(ledgers[0], node=False, collected=False)
    assert entries_of(opened(cluster, read_from=read_from)) == expected_of(cluster)
    shutil.rmtree(cluster.bucket())
    assert entries_of(opened(cluster, read_from=read_from)) == expected_of(cluster)


@PLACES
@pytest.mark.parametrize("objects", [(), ("index",), ("data",)], ids=str)
def test_an_offload_that_is_called_complete_and_is_not(
    cluster: LiveCluster, ledgers: list[int], objects: tuple[str, ...], read_from: str
) -> None:
    cluster.offload(TOPIC, ledgers[0], objects=objects)
    assert entries_of(opened(cluster, read_from=read_from)) == expected_of(cluster)
    cluster.delete_from_bookkeeper(ledgers[0])
    reported = None if objects else "BookKeeper no longer has it, and the object file:"
    with pytest.raises(LedgerfsError, match=reported):
        entries_of(opened(cluster, read_from=read_from))


def test_an_index_of_other_sizes(cluster: LiveCluster, ledgers: list[int]) -> None:
    cluster.offload(TOPIC, ledgers[0])
    cluster.delete_from_bookkeeper(ledgers[0])
    for changes in ({"entries": COUNT - 1}, {"size": 5}):
        cluster.change_ledger(TOPIC, ledgers[0], lambda info, changes=changes: replace(info, **changes))
        with pytest.raises(CorruptIndexError, match="the index has 700 entries with"):
            entries_of(opened(cluster))


@PLACES
def test_a_bucket_that_is_down_hides_no_ledger_that_bookkeeper_has(
    cluster: LiveCluster, ledgers: list[int], read_from: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TIMEOUT_VARIABLE, "0.1")
    cluster.offload(TOPIC, ledgers[0], endpoint="http://127.0.0.1:1")
    cluster.offload(TOPIC, ledgers[1], endpoint="http://127.0.0.1:1")
    nowhere = {"bucket_urls": {}, "bucket_options": {"key": "k", "secret": "s"}}
    bucket = opened(cluster, read_from=read_from, **nowhere)
    assert entries_of(bucket) == expected_of(cluster)
    cluster.delete_from_bookkeeper(ledgers[0])
    with pytest.raises(StoreUnreachableError):
        entries_of(opened(cluster, read_from=read_from, **nowhere))


@PLACES
def test_bookies_that_are_down_hide_no_ledger_that_a_bucket_has(
    cluster: LiveCluster, ledgers: list[int], read_from: str
) -> None:
    for ledger_id in ledgers:
        cluster.offload(TOPIC, ledger_id)
    bucket = opened(cluster, read_from=read_from)
    expected = expected_of(cluster)[: 3 * COUNT]
    assert bucket.topics()
    for bookie in cluster.bookies:
        bookie.kill()
    found = [
        (one.ref.ledger_id, i, bytes(data))
        for one in bucket.topic(TOPIC).ledgers[:3]
        for i, data in one.read(0, one.last_entry)
    ]
    assert found == expected
    with pytest.raises(StoreUnreachableError):
        entries_of(bucket)


@PLACES
def test_damage_in_one_place_is_not_skipped_where_the_other_is_sound(
    cluster: LiveCluster, ledgers: list[int], read_from: str
) -> None:
    cluster.offload(TOPIC, ledgers[0])
    for bookie in cluster.bookies:
        if 300 in bookie.entries(ledgers[0]):
            bookie.corrupt(ledgers[0], 300)
    data = objects_of(cluster)[0]
    content = bytearray(data.read_bytes())
    at = content.index(b"0.500.")
    # The length of the record of entry 500 is a lie.
    record = content.rindex((500).to_bytes(8), 0, at)
    content[record - 4 : record] = b"\x7f\xff\xff\xff"
    data.write_bytes(bytes(content))
    reported: list[tuple[int, int]] = []
    found = entries_of(
        opened(cluster, read_from=read_from), on_damage=lambda first, last, _: reported.append((first, last))
    )
    if read_from == "bucket":  # up to 499 from there, the rest from bookies
        assert (found, reported) == (expected_of(cluster), [])
    else:  # up to 299 from bookies; the bucket lacks 500
        missing = [row for row in expected_of(cluster) if row not in found]
        assert [(ledger, entry) for ledger, entry, _ in missing] == [
            (ledgers[0], entry) for first, last in reported for entry in range(first, last + 1)
        ]
        assert all(entry >= 500 for _, entry, _ in missing)
    cluster.delete_from_bookkeeper(ledgers[0])
    with pytest.raises(CorruptLedgerError):
        entries_of(opened(cluster, read_from=read_from))
    reported.clear()
    found = entries_of(
        opened(cluster, read_from=read_from), on_damage=lambda first, last, _: reported.append((first, last))
    )
    lost = [(ledgers[0], entry) for first, last in reported for entry in range(first, last + 1)]
    assert (ledgers[0], 500) in lost
    assert found == [row for row in expected_of(cluster) if row[:2] not in lost]


# How often the list of a topic is read.


@PLACES
@pytest.mark.parametrize("is_scan", [True, False])
def test_a_list_of_ledgers_is_read_once_for_all_of_them(cluster: LiveCluster, read_from: str, is_scan: bool) -> None:
    made = cluster.write_ledgers(TOPIC, [messages(3, f"{number}.") for number in range(40)])
    cluster.roll_over(TOPIC)
    for one in made[::2]:
        cluster.offload(TOPIC, one)
    for one in made[::4]:
        cluster.delete_from_bookkeeper(one)
    bucket = opened(cluster, read_from=read_from)
    assert bucket.topics()
    counts = []
    for _ in range(2):
        before = cluster.zookeeper.asked[LIST]
        bucket.refresh()
        found = values_of(bucket) if is_scan else entries_of(bucket)
        assert len(found) == 120
        counts.append(cluster.zookeeper.asked[LIST] - before)
    # The listing reads it, then the first ledger, and in a scan also the second one, which is begun meanwhile; later only the listing.
    assert counts[0] <= 2 + is_scan
    assert counts[1] == 1


def knowing(cluster: LiveCluster, read_from: str) -> Bucket:
    """Return a bucket that has read the list of ledgers, and one ledger of it."""
    bucket = opened(cluster, read_from=read_from)
    first = bucket.topic(TOPIC).ledgers[0]
    assert first.read(0, 0)
    return bucket


@PLACES
def test_a_ledger_that_moved_since_the_list_was_read(cluster: LiveCluster, ledgers: list[int], read_from: str) -> None:
    bucket = knowing(cluster, read_from)
    for one in ledgers[1:]:
        offload_and_delete(cluster, one)
    assert entries_of(bucket, on_damage=no_damage) == expected_of(cluster)


@PLACES
def test_no_entry_is_skipped_by_a_list_that_was_read_before(
    cluster: LiveCluster, ledgers: list[int], read_from: str
) -> None:
    """The list has no offload of the ledger when it is read, and bookies then lose an entry of it."""
    bucket = knowing(cluster, read_from)
    cluster.offload(TOPIC, ledgers[1])
    for bookie in cluster.bookies:
        if 3 in bookie.entries(ledgers[1]):
            bookie.corrupt(ledgers[1], 3)
    assert entries_of(bucket, on_damage=no_damage) == expected_of(cluster)


def test_another_copy_than_the_one_in_the_catalog_is_not_looked_for_by_an_old_list(
    cluster: LiveCluster, ledgers: list[int]
) -> None:
    """What is only in a bucket may have other entries than bookies have, which may keep theirs for a while."""
    bucket = knowing(cluster, "bookkeeper")
    cluster.offload(TOPIC, ledgers[1])
    set_context(cluster, ledgers[1], is_deleted_from_bookkeeper=True)
    bucket.refresh()
    for bookie in cluster.bookies:
        bookie.asked.clear()
    assert entries_of(bucket) == expected_of(cluster)
    assert ledgers[1] not in {one.ledger_id for bookie in cluster.bookies for one in bookie.asked}


def test_a_ledger_that_was_trimmed_since_the_list_was_read(cluster: LiveCluster, ledgers: list[int]) -> None:
    bucket = knowing(cluster, "bucket")
    cluster.trim(TOPIC, ledgers[1])
    with pytest.raises(StaleObjectError, match="trimmed"):
        entries_of(bucket, on_damage=no_damage)
    assert entries_of(bucket) == expected_of(cluster)


# What happens while a topic is read.


def offload_and_delete(cluster: LiveCluster, ledger_id: int, topic: str = TOPIC) -> None:
    cluster.offload(topic, ledger_id)
    cluster.delete_from_bookkeeper(ledger_id)


@PLACES
@pytest.mark.parametrize("write_quorum", [2, 3])
def test_offloaded_and_deleted_while_it_is_read(cluster: LiveCluster, read_from: str, write_quorum: int) -> None:
    for after in (1, 2, 4):
        for on_damage in (None, no_damage):
            topic = f"public/default/{after}-{on_damage is None}"
            made = cluster.write_ledgers(topic, [payloads(i, 4000) for i in range(2)], quorums=(3, write_quorum, 2))
            cluster.roll_over(topic)
            bucket = opened(cluster, read_from=read_from)

            def move(made: list[int] = made, topic: str = topic) -> None:
                for one in made:
                    offload_and_delete(cluster, one, topic)

            assert read_with(bucket, after, move, on_damage, topic) == cluster.entries_of(topic), topic


def test_offloaded_before_the_damage_that_bookies_have(cluster: LiveCluster, ledgers: list[int]) -> None:
    """Entries that were skipped before the move are not asked for again."""
    ledger_id = ledgers[0]
    for bookie in cluster.bookies:
        if 3 in bookie.entries(ledger_id):
            bookie.corrupt(ledger_id, 3)
    reported: list[tuple[int, int]] = []
    bucket = opened(cluster)
    found = read_with(
        bucket, 3, lambda: offload_and_delete(cluster, ledger_id), lambda first, last, _: reported.append((first, last))
    )
    assert reported == [(3, 3)]
    assert found == [row for row in expected_of(cluster) if row[:2] != (ledger_id, 3)]


@PLACES
def test_offloaded_again_under_another_uuid(cluster: LiveCluster, ledgers: list[int], read_from: str) -> None:
    for ledger_id in ledgers:
        offload_and_delete(cluster, ledger_id)
    bucket = opened(cluster, read_from=read_from)
    assert entries_of(bucket) == expected_of(cluster)

    def again() -> None:
        old = objects_of(cluster)
        for ledger_id in ledgers:
            cluster.offload(TOPIC, ledger_id)
            set_context(cluster, ledger_id, is_deleted_from_bookkeeper=True)
        for one in old:
            one.unlink()

    again()
    assert entries_of(bucket) == expected_of(cluster)
    assert read_with(bucket, 1, again) == expected_of(cluster)
    assert entries_of(opened(cluster)) == expected_of(cluster)


@PLACES
def test_trimmed_before_it_is_read(cluster: LiveCluster, ledgers: list[int], read_from: str) -> None:
    cluster.offload(TOPIC, ledgers[0])
    bucket = opened(cluster, read_from=read_from)
    assert bucket.topics()
    cluster.trim(TOPIC, ledgers[0])
    with pytest.raises(StaleObjectError, match="trimmed, or its topic was deleted, after the cluster was listed"):
        entries_of(bucket)
    # The bucket is listed again.
    assert entries_of(bucket) == expected_of(cluster)


def test_trimmed_while_it_is_read(cluster: LiveCluster) -> None:
    ledger_id = cluster.write_ledger(TOPIC, messages(200, size=30_000))
    cluster.write_ledger(TOPIC, messages(10))
    bucket = opened(cluster)
    with pytest.raises(StaleObjectError, match="trimmed"):
        read_with(bucket, 1, lambda: cluster.trim(TOPIC, ledger_id))
    assert len(entries_of(bucket)) == 9


def test_trimmed_between_two_ledgers_of_a_scan(cluster: LiveCluster, ledgers: list[int]) -> None:
    bucket = opened(cluster)
    batches = iter(bucket.topic(TOPIC).scan(["ledger_id", "entry_id"]))
    assert next(batches)
    cluster.trim(TOPIC, ledgers[2])
    with pytest.raises(OSError, match="trimmed"):
        list(batches)
    # Bookies answer until they have collected the ledger: those entries are still right.
    bucket.refresh()
    batches = iter(bucket.topic(TOPIC).scan(["ledger_id", "entry_id"]))
    first = next(batches)
    cluster.trim(TOPIC, ledgers[0], collected=False)
    rest = sum(len(batch) for batch in batches)
    assert len(first) + rest == 2 * COUNT + 1


def test_the_topic_is_deleted_while_it_is_read(cluster: LiveCluster, ledgers: list[int]) -> None:
    bucket = opened(cluster)

    def delete() -> None:
        for one in cluster.list_of(TOPIC).ledgers:
            cluster.delete_from_bookkeeper(one.ledger_id)
        cluster.zookeeper.delete(LIST)

    with pytest.raises(StaleObjectError, match="its topic was deleted"):
        read_with(bucket, 1, delete)
    with pytest.raises(NotFoundError, match="no ledger of this topic"):
        bucket.topic(TOPIC)
    assert ledgers


def test_a_broker_that_deletes_ledgers_before_the_list(
    cluster: LiveCluster, ledgers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is how topics are deleted: for a moment their ledgers are listed and nowhere."""
    bucket = opened(cluster)
    assert bucket.topics()
    for one in ledgers:
        cluster.delete_from_bookkeeper(one)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if seconds and LIST in cluster.nodes:
            cluster.zookeeper.delete(LIST)

    monkeypatch.setattr(reader, "time", SimpleNamespace(sleep=pause))
    with pytest.raises(StaleObjectError, match="its topic was deleted"):
        entries_of(bucket)
    # It was looked for again after one pause, in which the list went.
    assert pauses == [0, reader._PAUSES_S[0]]


@pytest.mark.parametrize("entries", [COUNT - 1, COUNT + 1])
def test_a_list_that_contradicts_bookkeeper(cluster: LiveCluster, ledgers: list[int], entries: int) -> None:
    cluster.change_ledger(TOPIC, ledgers[1], lambda info: replace(info, entries=entries))
    with pytest.raises(
        CorruptMetadataError, match=f"ledger list has {entries} entries for it, but BookKeeper's metadata has {COUNT}"
    ):
        entries_of(opened(cluster))


def test_a_listed_ledger_that_never_was(cluster: LiveCluster, ledgers: list[int]) -> None:
    cluster.change_list(TOPIC, lambda info: replace(info, ledgers=(*info.ledgers, LedgerInfo(9999, 3, 30, 1))))
    with pytest.raises(LedgerfsError, match="9999"):
        values_of(opened(cluster))
    assert ledgers


@pytest.mark.parametrize("place", ["bookkeeper", "both", "bucket"])
def test_a_list_that_reports_no_entries_of_a_closed_ledger(cluster: LiveCluster, place: str) -> None:
    for number in range(3):
        topic = f"public/default/orders{number}"
        wrong = ledgers_in(cluster, topic)[number]
        if place != "bookkeeper":
            cluster.offload(topic, wrong)
        if place == "bucket":
            cluster.delete_from_bookkeeper(wrong)
        cluster.change_ledger(topic, wrong, lambda info: replace(info, entries=0, size=0))
    with only_reading(cluster):
        bucket = opened(cluster)
        assert [one.entries for one in bucket.topics()] == [3 * COUNT + 1] * 3
        for number in range(3):
            topic = f"public/default/orders{number}"
            assert entries_of(bucket, topic) == expected_of(cluster, topic), number
            assert len(expected_of(cluster, topic)) == 3 * COUNT + 1


@pytest.mark.parametrize("is_in_bookkeeper", [True, False])
def test_a_topic_whose_greatest_ledger_is_offloaded_and_listed_without_entries(
    cluster: LiveCluster, ledgers: list[int], is_in_bookkeeper: bool
) -> None:
    cluster.offload(TOPIC, ledgers[2])
    if not is_in_bookkeeper:
        cluster.delete_from_bookkeeper(ledgers[2])
    cluster.change_list(TOPIC, lambda info: replace(info, ledgers=info.ledgers[:3]))
    cluster.change_ledger(TOPIC, ledgers[2], lambda info: replace(info, entries=0, size=0))
    bucket = opened(cluster)
    assert bucket.topics()[0].entries == 3 * COUNT
    assert entries_of(bucket) == cluster.entries_of(TOPIC)


def test_a_ledger_that_is_listed_without_entries_and_is_nowhere(cluster: LiveCluster, ledgers: list[int]) -> None:
    cluster.offload(TOPIC, ledgers[1])
    cluster.delete_from_bookkeeper(ledgers[1])
    cluster.change_ledger(TOPIC, ledgers[1], lambda info: replace(info, entries=0, size=0))
    shutil.rmtree(cluster.bucket())
    cluster.bucket().mkdir()
    bucket = opened(cluster)
    assert bucket.topics()[0].missing == 1
    with pytest.raises(MissingLedgerError, match=f"ledger {ledgers[1]}: it is in the topic's ledger list, but neither"):
        values_of(bucket)


def test_an_empty_ledger_that_was_dropped_is_no_loss(cluster: LiveCluster, ledgers: list[int]) -> None:
    expected = expected_of(cluster)
    cluster.change_list(TOPIC, lambda info: replace(info, ledgers=(LedgerInfo(99, 0, 0, 5), *info.ledgers)))
    bucket = opened(cluster)
    assert entries_of(bucket) == expected != []
    assert (bucket.topics()[0].missing, bucket.topics()[0].ledgers) == (0, 4)
    assert ledgers
