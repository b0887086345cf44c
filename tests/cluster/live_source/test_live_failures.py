"""Bookies that are away, busy, damaged or hostile: other replicas serve, or a sentence says what is wrong; no entry is lost in silence."""

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import (
    AccessDeniedError,
    CorruptLedgerError,
    CorruptMetadataError,
    LedgerfsError,
    MissingLedgerError,
    NotFoundError,
    StoreUnreachableError,
)
from ledgerfs.export.export import export_topic
from ledgerfs.formats.ledger_metadata import DigestType
from ledgerfs.scan.report import ScanReport
from ledgerfs.verification.verify import verify
from ledgerfs_cluster.bookies import pool
from ledgerfs_cluster.errors import StoppedError
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs_cluster.formats.bookkeeper.stored_entries import build_stored_entry
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    build_managed_ledger_info,
)
from ledgerfs_cluster.token_bucket import Bandwidth
from tests.cluster.support.bookies import BookieServer
from tests.cluster.support.live_clusters import CLOSED, TOPIC, LiveCluster, messages
from tests.cluster.support.live_reads import entries_of, in_the_middle, opened, values_of, whole
from tests.cluster.support.patience import Patience
from tests.support.invoked import run
from tests.support.ledgers import CREATED_MS

pytestmark = pytest.mark.usefixtures("impatient")

WHOLE = {"ensemble": 3, "write_quorum": 3, "ack_quorum": 2}
OTHER = "public/default/invoices"
STRIPED = {"ensemble": 3, "write_quorum": 2, "ack_quorum": 2}
MOST_TRIES = 12
"""How often a bookie is tried before all are given up: some times in each round, however many entries are asked for."""
SHAPES = {"public/default/whole": WHOLE, "public/default/striped": STRIPED}
"""A topic of each shape that ledgers have."""


def filled(cluster: LiveCluster, count: int = 800, size: int = 3000, topic: str = TOPIC, **options: object) -> int:
    """Write a closed ledger, and one without entries behind it."""
    ledger_id = cluster.write_ledger(topic, messages(count, size=size), **{**WHOLE, **options})
    cluster.roll_over(topic, **{**WHOLE, **options})
    return ledger_id


def of_all_shapes(cluster: LiveCluster, count: int = 800, **options: object) -> dict[str, int]:
    """Write a topic of each shape; return their ledgers."""
    return {topic: filled(cluster, count, topic=topic, **shape, **options) for topic, shape in SHAPES.items()}


def bookies_of(cluster: LiveCluster, ledger_id: int, entry: int = 0) -> list[BookieServer]:
    by_address = {one.address: one for one in cluster.bookies}
    return [by_address[name] for name in cluster.written[ledger_id].node.bookies_of(entry)]


def read_with(cluster: LiveCluster, bucket: Bucket, after: int, then: Callable[[], None], topic: str = TOPIC) -> None:
    """Read a topic batch by batch while something happens; all entries have to come, each once."""
    batches = (
        (one.ref.ledger_id, [(i, bytes(data)) for i, data in batch])
        for one in bucket.topic(topic).ledgers
        for batch in one.batches(0, one.last_entry)
    )
    found = [(ledger, i, data) for ledger, batch in in_the_middle(batches, after, then) for i, data in batch]
    assert found == cluster.entries_of(topic)


def test_a_bookie_that_is_away(cluster: LiveCluster, patience: Patience) -> None:
    of_all_shapes(cluster)
    for bookie in cluster.bookies:
        patience.forget()
        bookie.kill()
        for topic in SHAPES:
            whole(cluster, topic)
        bookie.start()


def test_a_bookie_that_goes_in_the_middle(cluster: LiveCluster, patience: Patience) -> None:
    of_all_shapes(cluster)
    for bookie in cluster.bookies:
        for topic in SHAPES:
            patience.forget()
            read_with(cluster, opened(cluster), 1, bookie.kill, topic)
            assert not bookie.is_running
            bookie.start()


@pytest.mark.parametrize("topic", SHAPES)
def test_each_bookie_in_turn_is_restarted_while_a_ledger_is_read(cluster: LiveCluster, topic: str) -> None:
    filled(cluster, 2000, topic=topic, **SHAPES[topic])
    turn = iter([*cluster.bookies, *cluster.bookies])

    def restart() -> None:
        bookie = next(turn, None)
        if bookie is not None:
            bookie.kill()
            bookie.start()

    bucket = opened(cluster)
    found = []
    for one in bucket.topic(topic).ledgers:
        for batch in one.batches(0, one.last_entry):
            found += [(one.ref.ledger_id, i, bytes(data)) for i, data in batch]
            restart()
    assert found == cluster.entries_of(topic)


def test_all_bookies_restarted_between_two_uses(cluster: LiveCluster) -> None:
    filled(cluster, 100)
    cluster.publish(TOPIC, messages(20))
    bucket = opened(cluster)
    before = entries_of(bucket)
    for bookie in cluster.bookies:
        bookie.kill()
        bookie.start()
    bucket.refresh()
    assert entries_of(bucket) == before


def test_a_bookie_that_resets_while_requests_are_outstanding(cluster: LiveCluster, patience: Patience) -> None:
    of_all_shapes(cluster)
    for topic in SHAPES:
        patience.forget()
        replies = 0

        def reset(sent: bytes) -> bytes | None:
            nonlocal replies
            replies += 1
            return None if replies % 3 == 0 else sent

        bucket = opened(cluster)
        assert bucket.topics()
        cluster.bookies[0].spoil = reset
        assert entries_of(bucket, topic) == cluster.entries_of(topic)
        assert replies, topic
        cluster.bookies[0].spoil = None


def test_all_bookies_away_are_named_after_few_tries(cluster: LiveCluster, patience: Patience) -> None:
    for topic, ledger_id in of_all_shapes(cluster, 100).items():
        patience.forget()
        bucket = opened(cluster)
        assert bucket.topics()
        for bookie in cluster.bookies:
            bookie.kill()
        with pytest.raises(StoreUnreachableError) as reported:
            entries_of(bucket, topic)
        for bookie in bookies_of(cluster, ledger_id):
            assert f"{bookie.address} does not answer" in str(reported.value)
        assert max(patience.failed.values()) <= MOST_TRIES, patience.failed
        with pytest.raises(StoreUnreachableError, match="does not answer"):
            values_of(bucket, topic, on_corrupt="skip")
        cluster.bookies[0].start()
        cluster.bookies[1].start()
        assert entries_of(bucket, topic) == cluster.entries_of(topic)
        cluster.bookies[2].start()


def test_silent_bookies_are_given_up(cluster: LiveCluster, patience: Patience) -> None:
    filled(cluster)
    bucket = opened(cluster)
    assert bucket.topics()
    cluster.bookies[0].is_silent = True
    patience.shorten(cluster.bookies[0])
    assert entries_of(bucket) == cluster.entries_of(TOPIC)
    assert patience.timeouts[cluster.bookies[0].address] == 1
    for bookie in cluster.bookies:
        bookie.is_silent = True
    patience.shorten(*cluster.bookies)
    patience.timeouts.clear()
    with pytest.raises(StoreUnreachableError):
        entries_of(bucket)
    assert patience.timeouts.keys() == {one.address for one in cluster.bookies}
    assert max(patience.timeouts.values()) <= MOST_TRIES, patience.timeouts


def test_replies_in_reverse_order(cluster: LiveCluster) -> None:
    of_all_shapes(cluster)
    for bookie in cluster.bookies:
        bookie.reverse_replies = True
    for topic in SHAPES:
        whole(cluster, topic)


@pytest.mark.parametrize("damage", ["corrupt", "remove_entry"])
def test_another_replica_serves_what_one_has_damaged_or_lost(cluster: LiveCluster, damage: str) -> None:
    for topic, ledger_id in of_all_shapes(cluster).items():
        for entry in (0, 1, 2, 500, 501, 502, 799):
            getattr(bookies_of(cluster, ledger_id, entry)[entry % 2], damage)(ledger_id, entry)
        whole(cluster, topic)


def test_a_bookie_that_has_nothing_of_a_ledger(cluster: LiveCluster) -> None:
    for topic, ledger_id in of_all_shapes(cluster).items():
        cluster.collect(ledger_id, cluster.bookies[1])
        whole(cluster, topic)


@pytest.mark.parametrize("topic", SHAPES)
def test_what_all_replicas_have_damaged_is_reported(cluster: LiveCluster, topic: str) -> None:
    lost = [0, 7, 8, 9, 1023, 1024, 1500, 1999]
    damages = {TOPIC: "corrupt", OTHER: "remove_entry"}
    for name, damage in damages.items():
        ledger_id = filled(cluster, 2000, topic=name, **SHAPES[topic])
        for entry in lost:
            for bookie in bookies_of(cluster, ledger_id, entry):
                getattr(bookie, damage)(ledger_id, entry)
        bucket = opened(cluster)
        with pytest.raises(CorruptLedgerError, match=f"ledger {ledger_id}.*entry 0 from any bookie:"):
            entries_of(bucket, name)
        reported: list[int] = []
        rest = entries_of(
            bucket, name, lambda first, last, _, reported=reported: reported.extend(range(first, last + 1))
        )
        expected = [row for row in cluster.entries_of(name) if row[1] not in lost]
        assert (reported, rest) == (lost, expected), damage
        scan = bucket.topic(name).scan(["entry_id"], on_corrupt="skip")
        report = ScanReport()
        assert scan.to_pandas(report)["entry_id"].tolist() == [entry for _, entry, _ in expected]
        skipped = [entry for one in report.skipped for entry in range(one.first_entry, one.last_entry + 1)]
        assert skipped == lost, damage


def test_a_bookie_that_demands_authentication(cluster: LiveCluster) -> None:
    filled(cluster, 100)
    bucket = opened(cluster)
    assert bucket.topics()
    cluster.bookies[0].is_unauthorised = True
    assert entries_of(bucket) == cluster.entries_of(TOPIC)
    for bookie in cluster.bookies:
        bookie.is_unauthorised = True
    with pytest.raises(AccessDeniedError, match="requires authentication, which ledgerfs does not support"):
        entries_of(bucket)
    with pytest.raises(AccessDeniedError, match="requires authentication, which ledgerfs does not support"):
        opened(cluster).topics()


@pytest.mark.parametrize("topic", SHAPES)
def test_busy_bookies_are_asked_again(cluster: LiveCluster, topic: str) -> None:
    filled(cluster, 200, **SHAPES[topic])
    cluster.publish(TOPIC, messages(30))
    for times in (1, 3, 40):
        for bookie in cluster.bookies:
            bookie.too_many(times)
        bucket = opened(cluster)
        if times == 40:
            for bookie in cluster.bookies:
                bookie.too_many(2)
            bucket.load_catalog()
            for bookie in cluster.bookies:
                bookie.too_many(times)
        assert entries_of(bucket)[:200] == cluster.entries_of(TOPIC)[:200]
        for bookie in cluster.bookies:
            bookie.too_many(0)
        assert len(entries_of(bucket)) == 229


# Hostile replies. A reply is its length, header, code, ledger, entry, and in batches the request's id.


def replies_in(sent: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(sent):
        size = int.from_bytes(sent[at : at + 4]) + 4
        found.append(sent[at : at + size])
        at += size
    return found


def is_batch(reply: bytes) -> bool:
    return reply[5] == 7


def with_body(reply: bytes, body: bytes, code: int = 0) -> bytes:
    head = 36 if is_batch(reply) else 28
    return (head - 4 + len(body)).to_bytes(4) + reply[4:8] + code.to_bytes(4) + reply[12:head] + body


def body_of(reply: bytes) -> bytes:
    return reply[36 if is_batch(reply) else 28 :]


def listed(body: bytes) -> list[bytes]:
    return [one[4:] for one in replies_in(body)]


def as_list(entries: list[bytes]) -> bytes:
    return b"".join(len(one).to_bytes(4) + one for one in entries)


def each(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda sent: b"".join(map(change, replies_in(sent)))


def of_batches(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    return each(lambda reply: with_body(reply, as_list(change(listed(body_of(reply))))) if is_batch(reply) else reply)


def renamed(entry: bytes, ledger: int = 0, by: int = 0) -> bytes:
    head = struct.unpack(">qq", entry[:16])
    return struct.pack(">qq", head[0] + ledger, head[1] + by) + entry[16:]


HOSTILE: dict[str, Callable[[bytes], bytes]] = {
    "longer than it is": each(lambda reply: (len(reply) + 96).to_bytes(4) + reply[4:]),
    "shorter than it is": each(lambda reply: (len(reply) - 14).to_bytes(4) + reply[4:]),
    "of two gigabytes": each(lambda reply: (0x7FFFFFFF).to_bytes(4) + reply[4:]),
    "of 200 MiB": each(lambda reply: (200 << 20).to_bytes(4) + reply[4:]),
    "of a negative length": each(lambda reply: b"\xff\xff\xff\xf0" + reply[4:]),
    "no bytes of ours": lambda sent: b"HTTP/1.1 400 Bad Request\r\n\r\n" + sent,
    "cut in the middle": lambda sent: sent[: len(sent) // 2],
    "nothing": lambda _: b"",
    "twice": lambda sent: sent + sent,
    "each twice": each(lambda reply: reply + reply),
    "of another ledger": each(lambda reply: reply[:12] + (7).to_bytes(8) + reply[20:]),
    "of another entry": each(lambda reply: reply[:20] + (int.from_bytes(reply[20:28]) + 1).to_bytes(8) + reply[28:]),
    "of no entry": each(lambda reply: reply[:20] + (2**63 - 1).to_bytes(8) + reply[28:]),
    "with an empty body": each(lambda reply: with_body(reply, b"")),
    "of an unknown code": each(lambda reply: with_body(reply, b"", 4711)),
    "of a code below 0": each(lambda reply: with_body(reply, b"", 0xFFFFFFFE)),
    "refused": each(lambda reply: with_body(reply, b"", 2)),
    "bad request": each(lambda reply: with_body(reply, b"", 100)),
    "batches of no entry": of_batches(lambda _: []),
    "batches of one entry": of_batches(lambda entries: entries[:1]),
    "batches with the last entry twice": of_batches(lambda entries: [*entries, entries[-1]]),
    "batches with more than was asked": of_batches(lambda entries: [*entries, *entries, *entries]),
    "batches that lack one": of_batches(lambda entries: [*entries[:3], *entries[4:]]),
    "batches in reverse": of_batches(lambda entries: entries[::-1]),
    "batches with an entry too short": of_batches(lambda entries: [entries[0], b"short", *entries[2:]]),
    "batches of empty entries": of_batches(lambda entries: [b""] * len(entries)),
    "batches whose list lies": each(
        lambda reply: with_body(reply, b"\x7f\xff\xff\xf0" + body_of(reply)[4:]) if is_batch(reply) else reply
    ),
    "batches from an earlier entry": each(
        lambda reply: reply[:20] + (0).to_bytes(8) + reply[28:] if is_batch(reply) else reply
    ),
    "batches of another request": each(
        lambda reply: (
            reply[:28] + (int.from_bytes(reply[28:36]) ^ 1).to_bytes(8) + reply[36:] if is_batch(reply) else reply
        )
    ),
    "with entries of another ledger": each(
        lambda reply: with_body(
            reply,
            as_list([renamed(one, ledger=1) for one in listed(body_of(reply))])
            if is_batch(reply)
            else body_of(reply) and renamed(body_of(reply), ledger=1),
        )
    ),
    "with entries of other ids": each(
        lambda reply: with_body(
            reply,
            as_list([renamed(one, by=3) for one in listed(body_of(reply))])
            if is_batch(reply)
            else body_of(reply) and renamed(body_of(reply), by=3),
        )
    ),
}


SILENT = {"longer than it is", "of 200 MiB", "cut in the middle", "nothing"}
"""Replies after which a reader waits for the rest until the time-out; all others are found out at once."""


@pytest.mark.long
@pytest.mark.parametrize("topic", SHAPES)
def test_a_bookie_that_lies_harms_nothing(cluster: LiveCluster, patience: Patience, topic: str) -> None:
    digest = DigestType.DUMMY if SHAPES[topic] is WHOLE else DigestType.CRC32C
    filled(cluster, 400, 3000, topic, digest=digest, **SHAPES[topic])
    expected = cluster.entries_of(topic)
    liar = cluster.bookies[0]
    for lie, spoil in HOSTILE.items():
        patience.forget()
        bucket = opened(cluster)
        assert bucket.topics()
        liar.spoil = spoil
        patience.shorten(*([liar] if lie in SILENT else []))
        assert entries_of(bucket, topic) == expected, lie
        assert entries_of(opened(cluster), topic) == expected, lie
        liar.spoil = None


@pytest.mark.long
@pytest.mark.parametrize("topic", SHAPES)
def test_bookies_that_all_lie_give_no_wrong_entry(cluster: LiveCluster, patience: Patience, topic: str) -> None:
    ledger_id = filled(cluster, 50, 100, topic, **SHAPES[topic])
    expected = cluster.entries_of(topic)
    for lie, spoil in HOSTILE.items():
        patience.forget()
        bucket = opened(cluster)
        assert bucket.topics()
        for bookie in cluster.bookies:
            bookie.spoil = spoil
        patience.shorten(*(cluster.bookies if lie in SILENT else []), seconds=0.05)
        found, errors = [], []
        try:
            found = entries_of(bucket, topic)
        except LedgerfsError as error:
            errors.append(str(error))
        assert found == expected or str(ledger_id) in errors[0], lie
        for bookie in cluster.bookies:
            bookie.spoil = None


def test_an_endless_trickle_is_given_up(cluster: LiveCluster, patience: Patience) -> None:
    """Else it would be read for hours."""
    filled(cluster, 1000)
    bucket = opened(cluster)
    assert bucket.topics()
    for bookie in cluster.bookies[:2]:
        bookie.trickle_s = 0.02
    patience.shorten(*cluster.bookies[:2])
    assert entries_of(bucket) == cluster.entries_of(TOPIC)
    assert patience.timeouts.keys() <= {one.address for one in cluster.bookies[:2]}
    assert max(patience.timeouts.values()) <= MOST_TRIES, patience.timeouts


def test_an_entry_of_a_ledger_that_is_another_payload_with_a_right_digest_of_another_key(cluster: LiveCluster) -> None:
    """An entry that was made with another password is none of this ledger."""
    ledger_id = filled(cluster, 10, digest=Digest(DigestType.HMAC, b"right"))
    first, *_ = bookies_of(cluster, ledger_id)
    first.add(ledger_id, 3, build_stored_entry(ledger_id, 3, 2, 9, b"forged", Digest(DigestType.HMAC, b"wrong")))
    whole(cluster)


def test_a_ledger_whose_bookies_moved_after_it_was_opened(tmp_path: Path) -> None:
    with LiveCluster(tmp_path, bookies=5) as cluster:
        ledger_id = cluster.write_ledger(TOPIC, messages(2000, size=500), ensemble=2)
        cluster.roll_over(TOPIC)
        old = bookies_of(cluster, ledger_id)
        bucket = opened(cluster)

        def move() -> None:
            # As BookKeeper's recovery does: copies on other bookies, other members from the first entry on, and the old ones gone.
            new = [one for one in cluster.bookies if one not in old][:2]
            cluster.change_ensemble(ledger_id, 0, new)
            for one in old:
                one.kill()

        read_with(cluster, bucket, 1, move)


# ZooKeeper.


@pytest.mark.parametrize("hidden", ["/managed-ledgers/public/default/persistent/orders", "ledger"])
def test_nodes_that_we_may_not_see(cluster: LiveCluster, hidden: str) -> None:
    ledger_id = filled(cluster, 50)
    cluster.zookeeper.no_auth(ledger_path(ledger_id) if hidden == "ledger" else hidden)
    with pytest.raises(AccessDeniedError):
        entries_of(opened(cluster))


_WRONG = [b"\xff\xff", b"BookieMetadataFormatVersion\t3\n\x05abc", b"Gx\0\0"]
_DAMAGED = pytest.mark.parametrize("data", _WRONG)
_HUGE = build_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(7, 2**62, 2**62, 1), LedgerInfo(8, 0, 0, 0))))


@_DAMAGED
def test_nodes_that_are_damaged(cluster: LiveCluster, data: bytes) -> None:
    path = ledger_path(filled(cluster, 50))
    cluster.zookeeper.set(path, data)
    with pytest.raises(CorruptMetadataError, match=path):
        entries_of(opened(cluster))


@pytest.mark.parametrize(
    ("node", "data"),
    [
        *(("list", one) for one in (*_WRONG, b"", _HUGE)),
        *(("open ledger", one) for one in _WRONG),
    ],
)
def test_what_cannot_be_listed_is_missing_in_its_topic_alone(
    cluster: LiveCluster, node: str, data: bytes, tmp_path: Path
) -> None:
    filled(cluster, 50)
    cluster.write_ledger(OTHER, messages(7), state=CLOSED)
    ledger_id = cluster.list_of(TOPIC).ledgers[-1].ledger_id
    path = "/managed-ledgers/public/default/persistent/orders" if node == "list" else ledger_path(ledger_id)
    others = cluster.entries_of(OTHER)
    cluster.zookeeper.set(path, data)
    bucket = opened(cluster)
    assert [(one.name, one.missing) for one in bucket.topics()] == [
        (f"persistent://{OTHER}", 0),
        (f"persistent://{TOPIC}", 1),
    ]
    assert entries_of(bucket, OTHER) == others
    for read in (values_of, lambda one: one.topic(TOPIC).scan().to_pandas(), lambda one: one.topic(TOPIC).count()):
        with pytest.raises(MissingLedgerError, match=path):
            read(bucket)
    with pytest.raises(MissingLedgerError, match=path):
        export_topic(bucket.topic(TOPIC), tmp_path / "export", "parquet")
    assert len(values_of(bucket, on_corrupt="skip")) == (0 if node == "list" else 50)
    assert [(one.kind, one.key, one.topic) for one in verify(cluster.url).findings] == [
        ("unreadable-object", path, f"persistent://{TOPIC}")
    ]
    assert f"{TOPIC}: 1 ledgers are missing" in run("topics", cluster.url, code=1).stderr.decode()
    assert path in run("count", cluster.url, TOPIC, code=1).stderr.decode()
    assert "7" in run("count", cluster.url, OTHER).stdout.decode()
    assert path in run("export", cluster.url, TOPIC, str(tmp_path / "command"), code=1).stderr.decode()
    assert path in run("offload", cluster.url, str(tmp_path / "copy"), code=1).stderr.decode()
    assert [one.name for one in open_bucket(str(tmp_path / "copy")).topics()] == [f"persistent://{OTHER}"] + [
        f"persistent://{TOPIC}"
    ] * (node != "list")


def test_lines_of_the_most_bytes_that_are_no_damage_end_no_listing(cluster: LiveCluster) -> None:
    """A damaged number may be one that a ledger could have: whoever reads that ledger is told, and others are read."""
    cluster.write_ledger(OTHER, messages(7), state=CLOSED)
    most = [(2**62 - 12, 1), (2**61, 2**57), (1, 2**58), (2**40, 2**21 + 2**20 - 1)]
    for number, (size, entries) in enumerate(most):
        topic = f"public/default/huge{number}"
        ledger_id = cluster.write_ledger(topic, messages(4))
        cluster.write_ledger(topic, messages(4))
        cluster.change_ledger(
            topic,
            ledger_id,
            lambda info, reported=(entries, size): replace(info, entries=reported[0], size=reported[1]),
        )
    bucket = opened(cluster)
    assert len(values_of(bucket, OTHER)) == 7
    for number in range(len(most)):
        with pytest.raises(CorruptMetadataError, match="the topic's ledger list has"):
            values_of(bucket, f"public/default/huge{number}")
    assert b"huge0" in run("topics", cluster.url).stdout
    assert b"the topic's ledger list has" in run("verify", cluster.url, code=1).stdout
    assert b"7" in run("count", cluster.url, OTHER).stdout


def test_a_damaged_index_of_a_ledger_that_only_it_reports_of(cluster: LiveCluster) -> None:
    ledger_id = filled(cluster, 50)
    cluster.write_ledger(OTHER, messages(7), state=CLOSED)
    uuid = cluster.offload(TOPIC, ledger_id)
    cluster.delete_from_bookkeeper(ledger_id)
    cluster.change_ledger(TOPIC, ledger_id, lambda info: replace(info, entries=0, size=0))
    assert len(values_of(opened(cluster))) == 50
    (cluster.bucket() / f"{uuid}-ledger-{ledger_id}-index").write_bytes(b"no index")
    bucket = opened(cluster)
    assert [one.missing for one in bucket.topics()] == [0, 1]
    assert len(values_of(bucket, OTHER)) == 7
    with pytest.raises(MissingLedgerError, match=f"ledger {ledger_id}"):
        values_of(bucket)


def test_what_is_nowhere_is_left_out_like_what_is_damaged(cluster: LiveCluster, tmp_path: Path) -> None:
    lost, kept = filled(cluster, 50), filled(cluster, 20)
    objects, last = filled(cluster, 30), filled(cluster, 3)
    cluster.zookeeper.delete(ledger_path(lost))
    cluster.offload(TOPIC, objects, objects=())
    cluster.delete_from_bookkeeper(objects)
    bucket = opened(cluster)
    with pytest.raises(NotFoundError, match="its entries are lost"):
        values_of(bucket)
    assert {one for one, _, _ in values_of(bucket, on_corrupt="skip")} == {kept, last}
    scan = bucket.topic(TOPIC).scan(["entry_id"], on_corrupt="skip", start_time=CREATED_MS)
    report = ScanReport()
    assert scan.to_arrow(report).num_rows == 23
    assert [(one.ledger_id, one.first_entry, one.last_entry) for one in report.skipped] == [
        (lost, 0, 49),
        (objects, 0, 29),
    ]
    urls = f"bucket_urls={json.dumps({'tier': cluster.bucket_url()})}"
    done = run("count", cluster.url, TOPIC, "--on-corrupt", "skip", "-o", urls, code=1)
    assert b"23" in done.stdout
    assert f"left out {lost}:0 to {lost}:49".encode() in done.stderr
    exported = run("export", cluster.url, TOPIC, str(tmp_path / "o"), "--on-corrupt", "skip", "-o", urls, code=1)
    assert b"23 messages" in exported.stderr


def test_a_listing_that_lacks_something_is_not_kept(cluster: LiveCluster, tmp_path: Path) -> None:
    filled(cluster, 50)
    cluster.roll_over(TOPIC)
    cluster.publish(TOPIC, messages(3))
    for bookie in cluster.bookies:
        bookie.kill()
    options: dict[str, object] = {"cache_dir": str(tmp_path), "catalog_max_age": 3600.0}
    assert [one.missing for one in opened(cluster, **options).topics()] == [1]
    for bookie in cluster.bookies:
        bookie.start()
    assert [(one.missing, one.entries) for one in opened(cluster, **options).topics()] == [(0, 52)]


def test_bytes_a_second_of_each_bookie_are_limited(cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    slept = 0.0

    def sleep(seconds: float) -> None:
        nonlocal slept
        slept += seconds

    monkeypatch.setattr(pool, "Bandwidth", lambda rate: Bandwidth(rate, clock=lambda: slept, sleep=sleep))
    filled(cluster, 200, 20_000, ensemble=1, write_quorum=1, ack_quorum=1)
    bucket = opened(cluster, bookie_rate=2e6)
    assert bucket.topics()
    assert entries_of(bucket) == cluster.entries_of(TOPIC)
    # Four megabytes take two seconds, but that the last window is asked for when those before it have had their time.
    assert 1.4 < slept < 2


def test_a_wait_for_the_rate_of_a_bookie_ends_with_the_service() -> None:
    asked = iter([False, False, True])
    slow = pool.BookiePool(timeout_s=1, rate=1)
    slow.pace("bookie:3181", 1 << 30)
    with pytest.raises(StoppedError, match="bookie_rate"):
        slow.pace("bookie:3181", 1, lambda: next(asked))
