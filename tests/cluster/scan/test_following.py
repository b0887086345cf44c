"""Following a topic of a living cluster: each message once and in order, whatever becomes of its ledgers meanwhile."""

import itertools
import json
import math
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.errors import (
    InvalidOptionError,
    MissingLedgerError,
    NotFoundError,
    ObjectNotFoundError,
    StaleObjectError,
    StoreUnreachableError,
)
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.formats.schemas.schema_versions import TopicSchemas
from ledgerfs.messages.proto.message_metadata_pb2 import BatchedMetadataRecord
from ledgerfs.scan import followed_topic, following
from ledgerfs.scan.following import Following
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.live_source import tail
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages
from tests.cluster.support.zookeeper import PING
from tests.support.commands import LEDGERFS
from tests.support.each import for_each
from tests.support.entries import batched, frame, metadata
from tests.support.invoked import run
from tests.support.ledgers import CREATED_MS
from tests.support.waiting import wait_until

COMMIT, ABORT = 21, 22
COLUMNS = ("ledger_id", "entry_id", "value")
HANG_S = 300
"""Whatever takes longer never ends."""


@pytest.fixture(autouse=True)
def _bookies_remember(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a pause of this process make nothing uncertain: bookies of tests remember deleted ledgers until they collect them."""
    monkeypatch.setattr(tail, "_REMEMBERED_S", math.inf)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path) as made:
        yield made
        assert made.not_reads() == []


def topic_of(cluster: LiveCluster, name: str = TOPIC, **options: object) -> Topic:
    return open_bucket(cluster.url, {"bucket_urls": {"tier": cluster.bucket_url()}, "timeout_s": 120, **options}).topic(
        name
    )


def follow(cluster: LiveCluster, name: str = TOPIC, **options: Any) -> Following:
    made = topic_of(cluster, name).follow(COLUMNS, **{"poll_s": 0.02, "patience_s": 2 * HANG_S, **options})
    made.on_wait = no_longer_than(HANG_S)
    return made


def no_longer_than(seconds: float) -> Callable[[], None]:
    """Return a callback that ends a wait for messages that do not come."""
    end = time.monotonic() + seconds

    def wait() -> None:
        assert time.monotonic() < end, "the messages do not come"

    return wait


def taken(following: Following, count: int) -> list[bytes]:
    """Return the values of the next messages, and no fewer."""
    values: list[bytes] = []
    while len(values) < count:
        values += next(following)["value"].to_pylist()
    assert len(values) == count
    return values


def named(prefix: str, *numbers: int) -> list[bytes]:
    return [f"{prefix}{i}".encode() for i in numbers]


def test_what_is_there_comes_first_and_then_what_is_published(cluster: LiveCluster) -> None:
    cluster.write_ledgers(TOPIC, [messages(30), messages(5, first=30)])
    with follow(cluster, start="earliest") as rows:
        # The newest entry is not confirmed before the next one.
        assert taken(rows, 34) == named("m", *range(34))
        cluster.publish(TOPIC, messages(3, first=35))
        assert taken(rows, 3) == named("m", 34, 35, 36)
        cluster.roll_over(TOPIC)
        assert taken(rows, 1) == named("m", 37)
        cluster.publish(TOPIC, messages(2, first=38))
        assert taken(rows, 1) == named("m", 38)
        cluster.terminate(TOPIC)
        assert taken(rows, 1) == named("m", 39)
        assert list(rows) == []


def test_a_quiet_topic_is_looked_at_more_than_once_a_second(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that only the pauses move: however long nothing came, the next look finds what has come."""
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    for module in (following, followed_topic):
        monkeypatch.setattr(module, "time", clock)
    cluster.write_ledger(TOPIC, messages(5))
    rows = topic_of(cluster, open_end="acknowledged").follow(COLUMNS)

    def wait() -> None:
        assert len(slept) <= 30, "the look after the pause did not find it"
        if len(slept) == 30:
            cluster.publish(TOPIC, messages(1, "late"))

    rows.on_wait = wait
    assert taken(rows, 1) == named("late", 0)
    assert 0.25 <= slept[0] < max(slept) < 1


def test_it_begins_at_a_message_or_behind_it(cluster: LiveCluster) -> None:
    first, second = cluster.write_ledgers(TOPIC, [messages(3), messages(3, first=3)])
    single = BatchedMetadataRecord(payload_size=0)
    cluster.publish(TOPIC, [batched([(single, f"b{i}".encode()) for i in range(4)]), *messages(1, "end")])
    assert taken(follow(cluster, start=f"{first}:2"), 8)[:2] == named("m", 2, 3)
    assert taken(follow(cluster, after=(first, 2)), 7)[0] == b"m3"
    assert taken(follow(cluster, start=f"{second}:3:2"), 2) == named("b", 2, 3)
    rows = follow(cluster, after=f"{second}:3:-1:2")
    assert taken(rows, 1) == [b"b3"]
    rows = follow(cluster, after=f"{second}:3")
    cluster.publish(TOPIC, messages(1, "more"))
    assert taken(rows, 1) == named("end", 0)
    with pytest.raises(NotFoundError, match="ends with entry 4"):
        follow(cluster, start=f"{second}:9")
    with pytest.raises(NotFoundError, match="no such ledger"):
        follow(cluster, start="99999:0")
    with pytest.raises(MissingLedgerError, match="rows may be lost: 3:8 and all entries after it were trimmed before"):
        follow(cluster, after="3:7")
    rows = follow(cluster, after="3:7", on_corrupt="skip")
    assert taken(rows, 3) == named("m", 0, 1, 2)
    assert [(one.ledger_id, one.first_entry) for one in rows.skipped] == [(3, 8)]


def test_it_begins_at_a_time(cluster: LiveCluster) -> None:
    cluster.write_ledgers(TOPIC, [messages(30), messages(30, first=30)])
    rows = follow(cluster, start=CREATED_MS + 27)
    assert taken(rows, 32) == named("m", *range(27, 59))
    rows = follow(cluster, start="2100-01-01")
    cluster.publish(TOPIC, [*messages(1, "early"), frame(metadata(publish_time_ms=4_102_444_800_001), b"x")] * 2)
    assert taken(rows, 1) == [b"x"]


@pytest.mark.parametrize("seed", [1, 2])
def test_every_message_comes_once_whatever_becomes_of_its_ledger(tmp_path: Path, seed: int) -> None:
    """300 random steps of a broker, and five of each kind, while a reader follows."""
    with LiveCluster(tmp_path, bookies=4) as cluster:
        cluster.write_ledger(TOPIC, messages(5))
        broker = Broker(cluster, random.Random(seed))
        rows = follow(cluster, start="earliest", poll_s=0.005)
        thread = threading.Thread(target=broker.work, args=(rows, 300))
        thread.start()
        found: list[tuple[int, int, bytes]] = []
        for batch in rows:
            found += zip(*(batch[name].to_pylist() for name in COLUMNS), strict=True)
        thread.join()
        assert broker.error is None, broker.steps
        assert [value for _, _, value in found] == broker.values
        assert [row[:2] for row in found] == sorted({row[:2] for row in found})
        assert rows.skipped == []
        assert cluster.not_reads() == []


class Broker:
    """Does what comes to its mind with a topic, each of it five times, and at last closes it."""

    def __init__(self, cluster: LiveCluster, chance: random.Random) -> None:
        self.cluster, self.chance = cluster, chance
        self.values = named("m", *range(5))
        self.steps = dict.fromkeys(("publish", "roll_over", "offload", "delete", "trim", "change", "fail"), 0)
        self.error: BaseException | None = None

    def work(self, rows: Following, steps: int) -> None:
        try:
            end = time.monotonic() + HANG_S
            for number in itertools.count():
                # A ledger that the reader has not read yet is not trimmed: a slow one makes more steps.
                if number >= steps and min(self.steps.values()) >= 5:
                    break
                assert time.monotonic() < end, "the reader does not come further"
                self._step(rows)
                time.sleep(self.chance.choice([0, 0, 0.005, 0.02]))
        except BaseException as error:  # noqa: BLE001  (the test raises it)
            self.error = error
        finally:
            for bookie in self.cluster.bookies:
                if not bookie.is_running:
                    bookie.start()
            self.cluster.terminate(TOPIC)

    def _step(self, rows: Following) -> None:
        weights = {"publish": 8, "roll_over": 3, "offload": 3, "delete": 3, "trim": 1, "change": 1, "fail": 1}
        (what,) = self.chance.choices(list(weights), list(weights.values()))
        if getattr(self, f"_{what}")(rows):
            self.steps[what] += 1

    @property
    def _last(self) -> int:
        return self.cluster.list_of(TOPIC).ledgers[-1].ledger_id

    def _publish(self, _: Following) -> bool:
        count = self.chance.choice([1, 2, 3, 50])
        self.cluster.publish(TOPIC, messages(count, first=len(self.values)))
        self.values += named("m", *range(len(self.values), len(self.values) + count))
        return True

    def _roll_over(self, rows: Following) -> bool:
        if not self.cluster.written[self._last].payloads:
            # Two that are gone with nothing in them: nobody who looks later can know that the second had nothing.
            wait_until(lambda: next(iter(rows.positions.values())).ledger_id == self._last, HANG_S)
        self.cluster.roll_over(TOPIC)
        return True

    def _offload(self, _: Following) -> bool:
        whole = [one for one in self.cluster.list_of(TOPIC).ledgers[:-1] if not one.is_offloaded]
        if whole:
            self.cluster.offload(TOPIC, self.chance.choice(whole).ledger_id)
        return bool(whole)

    def _delete(self, _: Following) -> bool:
        cold = [
            one.ledger_id
            for one in self.cluster.list_of(TOPIC).ledgers
            if one.context is not None and not one.context.is_deleted_from_bookkeeper
        ]
        if cold:
            self.cluster.delete_from_bookkeeper(self.chance.choice(cold), collected=self.chance.random() < 0.7)
        return bool(cold)

    def _trim(self, rows: Following) -> bool:
        """Trim the oldest ledger, if it was read and something came after it."""
        first = self.cluster.list_of(TOPIC).ledgers[0].ledger_id
        (position,) = rows.positions.values()
        if position.ledger_id > first:
            self.cluster.trim(TOPIC, first)
        return position.ledger_id > first

    def _change(self, _: Following) -> bool:
        written = self.cluster.written[self._last]
        self.cluster.change_ensemble(self._last, len(written.payloads))
        return True

    def _fail(self, _: Following) -> bool:
        """Have bookies or ZooKeeper hang up."""
        self.chance.choice([self.cluster.zookeeper, *self.cluster.bookies]).drop_connections()
        return True


def test_ledgers_that_were_trimmed_unread_are_named(cluster: LiveCluster) -> None:
    """The first of them may have been begun while the one before it was read: rows that it gave by then are not lost."""
    rows = _behind_a_trim(cluster)
    found: list[bytes | None] = []
    with pytest.raises(MissingLedgerError, match=r"152:0 to 152:4 trimmed before it was read") as raised:
        found.extend(value for batch in rows for value in batch["value"].to_pylist())
    assert found == named("m", *range(5, 5 + len(found)))
    assert ("151:" in str(raised.value)) is (len(found) < 5)
    assert len(found) == 5 or f"151:{len(found)} to 151:4" in str(raised.value)


def test_ledgers_that_were_trimmed_unread_are_reported_if_damage_is_skipped(cluster: LiveCluster) -> None:
    rows = _behind_a_trim(cluster, on_corrupt="skip")
    assert taken(rows, 4) == named("m", 15, 16, 17, 18)
    assert [(one.ledger_id, one.first_entry, one.last_entry) for one in rows.skipped] == [(151, 0, 4), (152, 0, 4)]


def _behind_a_trim(cluster: LiveCluster, **options: Any) -> Following:
    """Return the rows of a topic that lost two ledgers of four since it was looked at."""
    made = cluster.write_ledgers(TOPIC, [messages(5, first=first) for first in (0, 5, 10, 15)])
    rows = follow(cluster, start="earliest", **options)
    assert next(rows)["value"].to_pylist() == named("m", *range(5))
    cluster.trim(TOPIC, made[1])
    cluster.trim(TOPIC, made[2])
    return rows


def test_an_open_ledger_that_is_closed_and_trimmed_at_once_is_only_reported_if_rows_were_in_it(
    cluster: LiveCluster,
) -> None:
    first = cluster.write_ledger(TOPIC, messages(5))
    rows = follow(cluster, start="earliest")
    taken(rows, 4)
    cluster.publish(TOPIC, messages(1, first=5))
    assert taken(rows, 1) == [b"m4"]
    cluster.roll_over(TOPIC)
    cluster.trim(TOPIC, first, collected=False)
    with pytest.raises(MissingLedgerError, match=f"{first}:5 to {first}:5 trimmed"):
        next(rows)


def _passing(cluster: LiveCluster, *entries: int) -> None:
    """Have ledgers come and go, each trimmed when the next one is there, as consumers do that are quick."""
    for number in entries:
        last = cluster.list_of(TOPIC).ledgers[-1].ledger_id
        if number:
            cluster.publish(TOPIC, messages(number, "unseen"))
        # Another topic's, so that ids tell nothing.
        cluster.write_ledger("public/default/other", messages(1))
        cluster.roll_over(TOPIC)
        if number:
            cluster.trim(TOPIC, last)


def test_ledgers_that_came_and_went_between_two_looks_may_be_lost(cluster: LiveCluster) -> None:
    first = cluster.write_ledger(TOPIC, messages(5))
    rows = follow(cluster, start="earliest")
    taken(rows, 4)
    cluster.roll_over(TOPIC)
    cluster.trim(TOPIC, first, collected=False)
    _passing(cluster, 3)
    with pytest.raises(
        MissingLedgerError,
        match=f"rows are lost: {first}:4 to {first}:4 .*; {first + 1}:0 and all entries after it may",
    ):
        next(rows)


def test_ledgers_that_came_and_went_after_all_was_read_may_be_lost(cluster: LiveCluster) -> None:
    first = cluster.write_ledger(TOPIC, messages(5))
    cluster.close(first)
    rows = follow(cluster, start="earliest")
    taken(rows, 5)
    cluster.roll_over(TOPIC)
    cluster.trim(TOPIC, first)
    _passing(cluster, 3)
    with pytest.raises(
        MissingLedgerError,
        match=f"rows may be lost: {first + 1}:0 and all entries after it may have been written and trimmed",
    ):
        next(rows)


def test_a_ledger_that_is_trimmed_when_all_was_read_is_no_loss_if_nothing_can_have_come_after_it(
    cluster: LiveCluster,
) -> None:
    cluster.write_ledger(TOPIC, messages(1))
    rows = follow(cluster, start="earliest")
    for number in range(4):
        last = cluster.list_of(TOPIC).ledgers[-1].ledger_id
        cluster.close(last)
        taken(rows, 1)
        cluster.write_ledger("public/default/other", messages(1))
        cluster.roll_over(TOPIC)
        cluster.trim(TOPIC, last)
        cluster.publish(TOPIC, messages(1, str(number)))
    assert rows.skipped == []


@pytest.mark.parametrize("count", [2, 3])
def test_empty_ledgers_that_came_and_went_are_no_loss_as_long_as_that_can_be_known(
    cluster: LiveCluster, count: int
) -> None:
    cluster.write_ledger(TOPIC, messages(5))
    cluster.roll_over(TOPIC)
    rows = follow(cluster)
    _passing(cluster, *[0] * count)
    cluster.publish(TOPIC, messages(2, "new"))
    if count == 2:
        assert taken(rows, 1) == [b"new0"]
        return
    # The list was changed as often as by one with entries that came and was trimmed.
    with pytest.raises(MissingLedgerError, match="rows may be lost"):
        next(rows)


def test_a_topic_that_is_deleted_is_an_error(cluster: LiveCluster) -> None:
    cluster.write_ledger(TOPIC, messages(5))
    rows = follow(cluster)
    cluster.zookeeper.delete(managed_ledger_path("public/default/persistent/orders"))
    with pytest.raises(ObjectNotFoundError, match="the topic was deleted"):
        next(rows)


def test_a_topic_that_is_made_again_is_another_one(cluster: LiveCluster) -> None:
    cluster.write_ledger(TOPIC, messages(5))
    rows = follow(cluster)
    path = managed_ledger_path("public/default/persistent/orders")
    data = cluster.nodes[path]
    cluster.zookeeper.delete(path)
    cluster.zookeeper.set(path, data, created_ms=CREATED_MS)
    with pytest.raises(StaleObjectError, match="created again"):
        next(rows)


def test_a_cluster_may_be_away_for_a_while(cluster: LiveCluster) -> None:
    cluster.write_ledger(TOPIC, messages(5))
    rows = follow(cluster, start="earliest")
    taken(rows, 4)

    def publish() -> None:
        cluster.publish(TOPIC, messages(2, first=len(_values(cluster))))

    def start_bookies() -> None:
        for one in cluster.bookies:
            one.start()

    for one in cluster.bookies:
        one.kill()
    # Before its first pause it may not have looked yet; before the others it found no bookie.
    assert taken_with(rows, [None, None, start_bookies, publish], 2) == named("m", 4, 5)
    cluster.zookeeper.refuse()
    back = threading.Timer(0.5, cluster.zookeeper.listen)
    back.start()
    # Its first look waits for ZooKeeper.
    assert taken_with(rows, [None, publish], 2) == named("m", 6, 7)
    back.join()


def taken_with(rows: Following, at_pauses: list[Callable[[], None] | None], count: int) -> list[bytes]:
    """Return the values of the next messages; at each pause before them the next of these things happens."""
    left = list(at_pauses)
    bound = no_longer_than(HANG_S)

    def wait() -> None:
        bound()
        act = left.pop(0) if left else None
        if act is not None:
            act()

    rows.on_wait = wait
    values = taken(rows, count)
    assert left == []
    return values


def _values(cluster: LiveCluster) -> list[bytes]:
    return [payload for _, _, payload in cluster.entries_of(TOPIC)]


def test_patience_ends_with_an_error_after_which_it_may_go_on(cluster: LiveCluster) -> None:
    cluster.write_ledger(TOPIC, messages(5))
    rows = follow(cluster, start="earliest", patience_s=0.5)
    taken(rows, 4)
    for one in cluster.bookies:
        one.kill()
    with pytest.raises(StoreUnreachableError, match="retried for"):
        next(rows)
    for one in cluster.bookies:
        one.start()
    cluster.publish(TOPIC, messages(1, first=5))
    assert taken(rows, 1) == [b"m4"]


def test_a_chunked_message_may_span_ledgers_and_begin_before_the_start(cluster: LiveCluster) -> None:
    def part(name: str, chunk: int) -> bytes:
        return frame(
            metadata(chunked_id=name.encode(), chunks=3, chunked_size=6, chunk=chunk), f"{name}{chunk}".encode()
        )

    cluster.write_ledger(TOPIC, [*messages(3), part("a", 0), *messages(1, "n")])
    rows = follow(cluster)
    cluster.publish(TOPIC, [part("a", 1), part("b", 0)])
    cluster.roll_over(TOPIC)
    assert taken(rows, 1) == named("n", 0)
    cluster.publish(TOPIC, [part("b", 1), part("a", 2), part("b", 2), *messages(1)])
    assert taken(rows, 2) == [b"a0a1a2", b"b0b1b2"]
    assert rows.incomplete == []


def test_messages_behind_an_open_transaction_wait_until_it_ends(cluster: LiveCluster) -> None:
    def of(number: int, value: str = "", **fields: object) -> bytes:
        return frame(metadata(transaction_most=7, transaction_least=number, **fields), value.encode())

    cluster.write_ledger(TOPIC, [*messages(1), of(1, "1a"), *messages(1, "x"), of(2, "2a"), *messages(1, "y")])
    rows = follow(cluster, start="earliest")
    reported = follow(cluster, start="earliest", transactions="all")
    assert taken(rows, 1) == [b"m0"]
    assert taken(reported, 4) == [b"m0", b"1a", b"x0", b"2a"]
    cluster.publish(TOPIC, [of(2, "2b"), of(1, marker_type=COMMIT), *messages(1, "z")])
    assert taken(rows, 2) == [b"1a", b"x0"]
    cluster.roll_over(TOPIC)
    cluster.publish(TOPIC, [of(1, "late"), of(2, marker_type=ABORT), of(3, "3a"), *messages(1, "end")])
    assert taken(rows, 3) == [b"y0", b"z0", b"late"]
    cluster.publish(TOPIC, [of(3, marker_type=COMMIT), *messages(1)])
    cluster.terminate(TOPIC)
    assert b"".join(value for batch in rows for value in batch["value"].to_pylist()) == b"3aend0m0"
    scanned = topic_of(cluster).scan(["value"]).to_arrow()["value"].to_pylist()
    assert scanned == [b"m0", b"1a", b"x0", b"y0", b"z0", b"late", b"3a", b"end0", b"m0"]


def test_a_transaction_that_never_ends_holds_back_a_topic_to_its_end(cluster: LiveCluster) -> None:
    open_one = frame(metadata(transaction_most=7, transaction_least=1), b"open")
    cluster.write_ledger(TOPIC, [*messages(2), open_one, *messages(2)])
    cluster.terminate(TOPIC)
    rows = follow(cluster, start="earliest")
    assert [batch["value"].to_pylist() for batch in rows] == [named("m", 0, 1)]


def test_partitions_come_as_they_are_written_each_in_its_order(cluster: LiveCluster) -> None:
    names = [f"{TOPIC}-partition-{i}" for i in range(3)]
    cluster.set_partitions(TOPIC, 3)
    for name in names:
        cluster.write_ledger(name, messages(5, f"{name[-1]}-"))
    rows = topic_of(cluster).follow(("topic", "value"), start="earliest", poll_s=0.02)
    found: dict[str, list[bytes]] = {}
    for round_ in range(4):
        while sum(map(len, found.values())) < 3 * (4 + 5 * round_):
            batch = next(rows)
            for topic, value in zip(*(batch[name].to_pylist() for name in ("topic", "value")), strict=True):
                found.setdefault(topic[-1], []).append(value)
        for name in names:
            cluster.publish(name, messages(5, f"{name[-1]}-", first=5 * round_ + 5))
    assert found == {i: named(f"{i}-", *range(19)) for i in "012"}
    assert {name.rpartition("-")[2] for name in rows.positions} == {"0", "1", "2"}


def test_schemas_that_are_registered_later_are_resolved_to_the_columns_of_the_call(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def schema(version: int, *fields: dict[str, object]) -> SchemaVersion:
        made = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}, *fields]}
        return SchemaVersion(version, SchemaInfo("AVRO", json.dumps(made).encode()), 1)

    def of(version: int, value: bytes) -> bytes:
        return frame(metadata(schema_version=version.to_bytes(8, "big")), value)

    known, asked = [schema(0)], []

    def schemas_of(_: Bucket, name: str) -> TopicSchemas:
        asked.append(name)
        if not known:
            if len(asked) > 4:
                known.extend([schema(0), schema(1, {"name": "b", "type": "string"})])
            raise StoreUnreachableError("away for a moment", key=name)
        return TopicSchemas.of(known)

    monkeypatch.setattr(Bucket, "schemas_of", schemas_of)
    cluster.write_ledger(TOPIC, [of(0, b"\x02"), of(0, b"\x04"), of(1, b"\x06\x02x")])
    rows = topic_of(cluster).follow(("value",), start="earliest", values="typed", poll_s=0.02)
    assert next(rows)["value"].to_pylist() == [{"a": 1}, {"a": 2}]
    known.clear()
    asked.clear()
    cluster.publish(TOPIC, [of(1, b"\x08\x02x"), of(1, b"\x0a\x02x"), of(0, b"\x0c")])
    assert next(rows)["value"].to_pylist() == [{"a": 3}, {"a": 4}, {"a": 5}]
    count = len(asked)
    cluster.publish(TOPIC, [of(1, b"\x0e\x02x")])
    assert next(rows)["value"].to_pylist() == [{"a": 6}]
    assert len(asked) == count


def test_a_topic_without_an_entry_can_be_followed(cluster: LiveCluster) -> None:
    cluster.write_ledger(TOPIC, [])
    both = [follow(cluster, start=start) for start in ("latest", "earliest")]
    cluster.publish(TOPIC, messages(3))
    assert [taken(rows, 2) for rows in both] == [named("m", 0, 1)] * 2


def test_a_look_at_a_quiet_topic_costs_a_node_and_its_bookies_and_seldom_the_list(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list once a second, by a clock that the test moves."""
    seconds: list[float] = []
    monkeypatch.setattr(tail, "time", SimpleNamespace(monotonic=lambda: sum(seconds)))
    cluster.write_ledgers(TOPIC, [messages(5)] * 3)
    rows = follow(cluster)
    asked, looks = [], iter(range(12))

    def wait() -> None:
        zookeeper = cluster.zookeeper.requests
        nodes, entries = (
            sum(zookeeper.values()) - zookeeper[PING],
            sum(sum(one.requests.values()) for one in cluster.bookies),
        )
        asked.append((nodes, entries))
        seconds.append(0.25)
        if next(looks, None) is None:
            rows.close()

    rows.on_wait = wait
    assert list(rows) == []
    nodes, entries = (last - first for first, last in zip(asked[0], asked[-1], strict=True))
    assert nodes <= 12 + 3
    assert entries <= 12 * (3 + 2)


def test_no_columns_are_rows_too(cluster: LiveCluster) -> None:
    cluster.write_ledger(TOPIC, messages(5))
    batch = next(topic_of(cluster).follow((), start="earliest"))
    assert (batch.num_rows, batch.num_columns) == (4, 0)


@for_each(
    "options",
    [
        {"start": "soon"},
        {"start": None},
        {"start": 1.5},
        {"start": "earliest", "after": "1:2"},
        {"after": "x"},
        {"poll_s": -1},
        {"patience_s": True},
        {"transactions": "some"},
        {"columns": ("nothing",)},
    ],
)
def test_options_that_mean_nothing_are_refused(cluster: LiveCluster, options: dict[str, Any]) -> None:
    cluster.write_ledger(TOPIC, messages(5))
    with pytest.raises(InvalidOptionError):
        topic_of(cluster).follow(**options)


@pytest.mark.process
def test_the_command_goes_on_until_ctrl_c(cluster: LiveCluster) -> None:
    cluster.write_ledger(TOPIC, messages(5))
    with _command(cluster, "--from", "earliest", "--columns", "value", "--json") as process:
        assert [_line(process) for _ in range(4)] == [f'{{"value":"m{i}"}}' for i in range(4)]
        cluster.publish(TOPIC, messages(1, "new"))
        assert _line(process) == '{"value":"m4"}'
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=HANG_S)
    assert (rest, said, process.returncode) == (b"", b"interrupted\n", 130)


@pytest.mark.process
def test_the_command_ends_when_nobody_reads_it_though_nothing_comes(cluster: LiveCluster) -> None:
    cluster.write_ledger(TOPIC, messages(5))
    with _command(cluster, "-n", "1") as process:
        assert _line(process)
        assert process.stdout is not None
        process.stdout.close()
        process.wait(timeout=HANG_S)
        assert process.stderr is not None
        assert (process.returncode, process.stderr.read()) == (141, b"")


@pytest.mark.process
def test_the_command_reports_what_it_cannot_do(cluster: LiveCluster, golden_url: str) -> None:
    cluster.write_ledger(TOPIC, messages(5))
    for options in (["--start", "2026-11-01"], ["--end", "2026-11-01"], ["--order", "partition"]):
        assert b"cannot be used with --follow" in run("head", "--follow", *options, cluster.url, TOPIC, code=2).stderr
    assert b"--from needs --follow" in run("head", "--from", "latest", cluster.url, TOPIC, code=2).stderr
    said = run("head", "--follow", golden_url, "public/golden/plain", code=2).stderr
    assert b"only topics of a live cluster" in said


def _command(cluster: LiveCluster, *options: str) -> "subprocess.Popen[bytes]":
    command = [LEDGERFS, "head", "--follow", *options, cluster.url, TOPIC]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ))


def _line(process: "subprocess.Popen[bytes]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()
