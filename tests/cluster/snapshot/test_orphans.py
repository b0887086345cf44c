"""Orphans are named by two looks and a grace; what lives is not, whatever a broker does meanwhile."""

import struct
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from uuid import UUID

import numpy as np
import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.formats.ledger_metadata import MANAGED_LEDGER_KEY
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.objects import ObjectHead
from ledgerfs_cluster.check.check import Rules, check_cluster
from ledgerfs_cluster.check.tier_listing import Tier
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_path
from ledgerfs_cluster.formats.stored_schema import locator_path
from ledgerfs_cluster.live_source.newest_entries import NewestEntries
from ledgerfs_cluster.rules.findings import FindingKind
from ledgerfs_cluster.rules.orphans import orphan_findings, signs_of_sharing, unnamed_ledgers
from ledgerfs_cluster.rules.ownership import is_in
from ledgerfs_cluster.rules.tiered_objects import pair_keys
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.surveying import survey_cluster
from ledgerfs_cluster.snapshot.tables import LISTED
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from tests.cluster.support.live_clusters import CLOSED, LiveCluster, messages
from tests.cluster.support.living_clusters import living, surveyed
from tests.cluster.support.sick_clusters import PULSAR, prepared, topic_of_ledgers, write_of
from tests.cluster.support.zookeeper import GET_CHILDREN, GET_DATA, MULTI_READ
from tests.support.each import for_each

TOPIC = "persistent://public/default/orders"
NAME = "public/default/persistent/orders"


def named(survey: Survey) -> dict[FindingKind, list[int]]:
    found = unnamed_ledgers(survey, survey.read_ms + 1000, 0)
    reported: dict[FindingKind, list[int]] = {}
    for one in orphan_findings(survey, found.rows):
        reported.setdefault(one.kind, []).extend(one.ledger_ids)
    return reported


def test_each_component_has_its_own_owner(cluster: LiveCluster) -> None:
    ids = topic_of_ledgers(cluster, TOPIC)
    url = ("pulsar/compactedTopic", TOPIC)
    delayed = ("pulsar/delayedIndexTopic", TOPIC)
    kept, old = (write_of(cluster, "compacted-ledger", url) for _ in range(2))
    bucket, dropped = (write_of(cluster, "delayed-index-bucket", delayed) for _ in range(2))
    cluster.add_cursor(TOPIC, "__compaction", (ids[0], 1), stale=(ids[0], 0), properties={"CompactedTopicLedger": kept})
    properties = {f"#pulsar.internal.delayed.bucket_{ids[0]}_{ids[1]}": str(bucket), "color": "red"}
    cluster.add_cursor(TOPIC, "late", (ids[0], 1), cursor_properties=properties)
    write_of(cluster, "something-else", (MANAGED_LEDGER_KEY, NAME))
    cluster.write_unlisted(messages(1), (("application", b"other"), ("component", b"managed-ledger")), state=CLOSED)
    cluster.write_unlisted(messages(1), (PULSAR, ("component", b"managed-ledger")), state=CLOSED)
    found = surveyed(cluster)
    assert named(found) == {FindingKind.ORPHAN_COMPACTED_LEDGER: [old], FindingKind.ORPHAN_DELAYED_LEDGER: [dropped]}
    assert unnamed_ledgers(found, found.read_ms + 1000, 0).unclear == 2


def test_an_open_compacted_ledger_may_be_one_that_is_made_just_now(cluster: LiveCluster) -> None:
    topic_of_ledgers(cluster, TOPIC)
    write_of(cluster, "compacted-ledger", ("pulsar/compactedTopic", TOPIC), state=1)
    of_none = write_of(
        cluster, "compacted-ledger", ("pulsar/compactedTopic", "persistent://public/default/gone"), state=1
    )
    found = surveyed(cluster)
    assert named(found) == {FindingKind.ORPHAN_COMPACTED_LEDGER: [of_none]}
    assert unnamed_ledgers(found, found.read_ms + 1000, 0).unclear == 1


def test_an_open_orphan_is_reported_only(cluster: LiveCluster) -> None:
    custom = (("component", b"managed-ledger"), (MANAGED_LEDGER_KEY, NAME.encode()), PULSAR)
    closed, opened = (
        cluster.write_unlisted(messages(4), custom, state=CLOSED),
        cluster.write_unlisted(messages(4), custom),
    )
    found = surveyed(cluster)
    rows = unnamed_ledgers(found, found.read_ms + 1000, 0).rows
    reported = {one.ledger_ids: one for one in orphan_findings(found, rows)}
    assert reported[closed,].size == sum(map(len, messages(4)))
    assert "deleteledger" in reported[closed,].mend
    assert (reported[opened,].size, "a writer may still be running" in reported[opened,].mend) == (-1, True)


def test_what_names_a_topic_that_is_not_here_may_be_of_another_cluster(cluster: LiveCluster) -> None:
    """Another Pulsar cluster may have its ledgers on the same BookKeeper: they name no cluster."""
    topic_of_ledgers(cluster, TOPIC)
    cluster.write_ledger("public/default/parted-partition-0", messages(1))
    owners = {"here": NAME, "a partition's": "public/default/persistent/parted", "there": "theirs/ns/persistent/t"}
    ids = {
        who: cluster.write_unlisted(messages(1), _custom("managed-ledger", (MANAGED_LEDGER_KEY, owner)), state=CLOSED)
        for who, owner in owners.items()
    }
    schemas = {
        who: write_of(cluster, "schema", ("pulsar/schemaId", owner))
        for who, owner in (("here", "public/default/orders"), ("there", "theirs/ns/t"))
    }
    found = surveyed(cluster)
    reported = {
        one.ledger_ids: one for one in orphan_findings(found, unnamed_ledgers(found, found.read_ms + 1000, 0).rows)
    }
    for made in (ids, schemas):
        for who, ledger_id in made.items():
            is_theirs = who == "there"
            assert ("this cluster has no such topic" in reported[ledger_id,].evidence) is is_theirs
            assert reported[ledger_id,].mend.startswith("find out which cluster owns it") is is_theirs
            assert "another Pulsar cluster on this BookKeeper" in reported[ledger_id,].evidence
            assert (
                "if no other Pulsar cluster uses this BookKeeper: run the check again directly before"
                in reported[ledger_id,].mend
            )


def test_signs_of_other_clusters_on_the_same_bookkeeper_are_reported(cluster: LiveCluster) -> None:
    topic_of_ledgers(cluster, TOPIC)
    whose = _custom("managed-ledger", (MANAGED_LEDGER_KEY, NAME))
    cluster.write_unlisted(messages(1), whose, state=CLOSED)
    theirs = _custom("managed-ledger", (MANAGED_LEDGER_KEY, "theirs/ns/persistent/t"))
    for _ in range(2):
        cluster.write_unlisted(messages(1), theirs)
    # Tenants may have any name; whoever may not see a node knows that it is there.
    for path in ("/namespace/managed-ledgers", "/two/managed-ledgers", "/one/managed-ledgers", "/kafka/brokers"):
        cluster.zookeeper.set(path, b"")
    cluster.zookeeper.no_auth("/two/managed-ledgers")
    signs = [
        "ZooKeeper has the metadata of other Pulsar clusters in /one, /two",
        "2 ledgers that are not closed belong to topics that this cluster does not have",
    ]
    time.sleep(0.2)
    with living(cluster) as opened:
        done = check_cluster(opened, None, [], Rules(50, 0), lambda *_: None)
    assert done.signs == signs
    of_here, of_them = sorted(done.findings, key=lambda one: one.subject)
    assert of_here.mend.startswith("first find out whether it belongs to another Pulsar cluster")
    assert of_them.mend.startswith("do not delete: a writer may still be running")


@pytest.mark.parametrize("chroot", ["/bk", "/bk/pulsar"])
def test_another_place_of_bookkeepers_metadata_is_a_sign(tmp_path: Path, chroot: str) -> None:
    with LiveCluster(tmp_path, chroot=chroot) as made:
        topic_of_ledgers(made, TOPIC)
        url = f"pulsar+zk://{made.zookeeper.address}"
        below = ClusterFileSystem().cluster(made.url.removeprefix("pulsar+zk://"))
        above = ClusterFileSystem(ledgers_path=f"{chroot}/ledgers").cluster(url.removeprefix("pulsar+zk://"))
        try:
            assert signs_of_sharing(survey_cluster(below, None, lambda *_: None)) == []
            place, *others = signs_of_sharing(survey_cluster(above, None, lambda *_: None))
        finally:
            below.nodes.close()
            above.nodes.close()
    assert place.startswith(f"BookKeeper has its metadata in {chroot}/ledgers")
    assert any("other Pulsar clusters in /bk" in one for one in others) is (chroot == "/bk")


@for_each("value", ["99999999999999999999", "-1", "x", "²"])
def test_a_bucket_of_delayed_messages_that_is_no_ledger_is_damage(cluster: LiveCluster, value: str) -> None:
    ids = topic_of_ledgers(cluster, TOPIC)
    cluster.add_cursor(TOPIC, "late", (ids[0], 1), cursor_properties={"#pulsar.internal.delayed.bucket_1": value})
    assert [one.path for one in surveyed(cluster).damaged] == [cursor_path(NAME, "late")]


@pytest.mark.parametrize("damaged", ["topic", "cursor", "schema", "compaction"])
def test_what_could_not_be_read_is_no_missing_owner(cluster: LiveCluster, damaged: str) -> None:
    ids = topic_of_ledgers(cluster, TOPIC)
    cluster.trim(TOPIC, ids[0], only_list=True)
    of_cursor = (*_custom("managed-ledger", (MANAGED_LEDGER_KEY, NAME)), ("pulsar/cursor", b"sub"))
    cursor = cluster.write_unlisted(messages(1), of_cursor, state=CLOSED)
    schema = write_of(cluster, "schema", ("pulsar/schemaId", "public/default/orders"))
    compacted = write_of(cluster, "compacted-ledger", ("pulsar/compactedTopic", TOPIC))
    paths = {
        "topic": f"/managed-ledgers/{NAME}",
        "cursor": cursor_path(NAME, "sub"),
        "schema": "/schemas/public/default/orders",
        "compaction": cursor_path(NAME, "__compaction"),
    }
    of_all = {
        FindingKind.ORPHAN_LEDGER: [ids[0]],
        FindingKind.ORPHAN_CURSOR_LEDGER: [cursor],
        FindingKind.ORPHAN_SCHEMA_LEDGER: [schema],
        FindingKind.ORPHAN_COMPACTED_LEDGER: [compacted],
    }
    assert named(surveyed(cluster)) == of_all
    cluster.zookeeper.set(paths[damaged], b"\xff\xff")
    hidden = {
        "topic": {*of_all} - {FindingKind.ORPHAN_SCHEMA_LEDGER},
        "cursor": {FindingKind.ORPHAN_CURSOR_LEDGER},
        "schema": {FindingKind.ORPHAN_SCHEMA_LEDGER},
        "compaction": {FindingKind.ORPHAN_COMPACTED_LEDGER},
    }[damaged]
    assert named(surveyed(cluster)) == {kind: found for kind, found in of_all.items() if kind not in hidden}


@pytest.mark.parametrize("subscription", ["plain", "team/a b", "über:1%"])
def test_a_damaged_node_of_a_subscription_hides_its_ledger_whatever_its_name(
    cluster: LiveCluster, subscription: str
) -> None:
    """Brokers encode the name before they make a cursor: so it is in the path of the node, and in the metadata of its ledger."""
    ids = topic_of_ledgers(cluster, TOPIC)
    made = cluster.add_cursor(TOPIC, subscription, (ids[0], 3), stale=(ids[0], 1))
    cluster.close(made)
    cluster.zookeeper.set(cursor_path(NAME, subscription), b"\xff\xff")
    found = surveyed(cluster)
    assert named(found) == {}
    assert unnamed_ledgers(found, found.read_ms + 1000, 0).unclear == 1
    cluster.zookeeper.delete(cursor_path(NAME, subscription))
    gone = surveyed(cluster)
    (reported,) = orphan_findings(gone, unnamed_ledgers(gone, gone.read_ms + 1000, 0).rows)
    assert (reported.ledger_ids, reported.subject) == ((made,), f"{TOPIC} subscription {subscription}")


@pytest.mark.parametrize("emptied", ["list", "locator"])
def test_a_node_that_is_emptied_is_damage_and_no_missing_owner(cluster: LiveCluster, emptied: str) -> None:
    topic_of_ledgers(cluster, TOPIC)
    cluster.add_schema(TOPIC, SchemaInfo("STRING", b"", {}))
    path = f"/managed-ledgers/{NAME}" if emptied == "list" else locator_path(TOPIC)
    cluster.zookeeper.set(path, b"")
    found = surveyed(cluster)
    assert [one.path for one in found.damaged] == [path]
    assert named(found) == {}


def test_folders_and_a_list_that_is_just_made_are_no_damage(cluster: LiveCluster) -> None:
    for path in ("/schemas/public/default", "/schemas/public/other", "/managed-ledgers/public/default/persistent/new"):
        cluster.zookeeper.set(path, b"")
    found = surveyed(cluster)
    assert (found.damaged, found.topics) == ([], ["public/default/persistent/new"])
    cluster.add_cursor("persistent://public/default/new", "sub", (7, 0))
    assert [one.path for one in surveyed(cluster).damaged] == ["/managed-ledgers/public/default/persistent/new"]


def test_compaction_whose_state_was_not_asked_hides_its_ledgers(cluster: LiveCluster) -> None:
    ids = topic_of_ledgers(cluster, TOPIC)
    kept = write_of(cluster, "compacted-ledger", ("pulsar/compactedTopic", TOPIC))
    cluster.add_cursor(TOPIC, "__compaction", (ids[0], 1), stale=(ids[0], 0), properties={"CompactedTopicLedger": kept})
    assert named(surveyed(cluster)) == {}
    assert named(surveyed(cluster, bookies=False)) == {}


def test_keys_and_ids_are_found_whatever_their_bytes() -> None:
    rows = np.zeros(4, LISTED)
    rows["uuid_high"], rows["uuid_low"], rows["ledger_id"] = [1, 1 << 63, 1, 0], [2, 2, 0, 0], [3, 3, 0, 0]
    keys = pair_keys(rows)
    assert len(set(keys.tolist())) == 4
    assert np.isin(keys, keys[:2]).tolist() == [True, True, False, False]
    assert is_in(np.array([1, 5, 9]), np.array([5, 7])).tolist() == [False, True, False]
    assert is_in(np.array([1]), np.array([], np.int64)).tolist() == [False]


class _Telling:
    """A store that has user metadata as S3 has them."""

    def __init__(self, store: RawStore, clusters: dict[str, str | None]) -> None:
        self._store, self._clusters = store, clusters

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def head(self, key: str) -> ObjectHead:
        head, cluster = self._store.head(key), self._clusters.get(key[:36])
        return ObjectHead(head.stat, {} if cluster is None else {"pulsarclustername": cluster})


@pytest.mark.parametrize("admin", [None, "ours", "renamed"])
def test_objects_of_another_cluster_are_never_orphans(cluster: LiveCluster, admin: str | None) -> None:
    ids = topic_of_ledgers(cluster, TOPIC)
    own = cluster.offload(TOPIC, ids[0])
    uuids = {name: f"{number:08x}-0000-0000-0000-000000000000" for number, name in enumerate(("ours", "theirs", ""), 1)}
    for uuid in uuids.values():
        (cluster.bucket() / f"{uuid}-ledger-7").write_bytes(b"x")
    (cluster.bucket() / "notes.txt").write_bytes(b"not an offload")
    if admin is not None:
        cluster.zookeeper.set(f"/admin/clusters/{admin}", b"{}")
        cluster.zookeeper.set("/admin/clusters/global", b"{}")
    clusters = {own: "ours", **{uuid: name or None for name, uuid in uuids.items()}}
    bucket = Bucket(_Telling(open_bucket(cluster.bucket_url()).raw_store, clusters))  # type: ignore[arg-type]
    time.sleep(0.05)
    with living(cluster) as opened:
        done = check_cluster(opened, None, [Tier(bucket, frozenset({"tier"}))], Rules(1, 0.01), lambda *_: None)
    reported = {one.subject.rpartition("/")[2][:8]: one.evidence for one in done.findings}
    assert "no cluster name: if other clusters use the bucket" in reported.pop("00000003")
    if admin == "renamed":
        # What the cluster's own offloads say is not what ZooKeeper says: nobody can tell.
        assert reported == {}
        assert any(one.startswith("2 unreferenced offloads have a cluster name") for one in done.left_out)
    else:
        assert list(reported) == ["00000001"]
        assert any(one.startswith("1 unreferenced offloads belong to another cluster") for one in done.left_out)


class _Broker:
    """A broker at work: it makes ledgers before it names them, and stops naming them before they go.

    It goes on between answers of ZooKeeper. Each topic has one step a check, which is over before the second look begins.
    """

    def __init__(self, cluster: LiveCluster, seed: int) -> None:
        self._cluster, self._random = cluster, Random(seed)
        self._topics = [f"persistent://public/live/t{number}" for number in range(3)]
        self._moves: dict[int, list[str]] = {}
        self._under_way: dict[str, Iterator[None]] = {}
        self._is_done: set[str] = set()
        self._answers = 50
        self._last_cursor: dict[str, int] = {}
        self.met_by_looks: Counter[str] = Counter()
        for topic in self._topics:
            cluster.write_ledger(topic, messages(2))

    def begin(self) -> None:
        """Begin before a check, or during its looks, about as long as the last ones, a step of each topic, which has up to three parts."""
        self._end_steps()
        self._is_done.clear()
        self._moves.clear()
        for topic in self._topics:
            for _ in range(3):
                # What is made during the first look is too young for both, so a third of all moves are before it.
                at = max(0, self._random.randrange(-self._answers // 2, self._answers))
                self._moves.setdefault(at, []).append(topic)
        self._answers = 0
        self._move()

    def answered(self, body: bytes) -> bytes:
        """Go on before an answer of ZooKeeper is sent."""
        self._answers += 1
        self._move()
        return struct.pack("!i", len(body)) + body

    def end_between_looks(self, _: float) -> None:
        """End all steps, as there is more time between two looks than any step takes."""
        self.met_by_looks.update(step.__name__ for step in self._under_way.values())
        self._end_steps()

    def _move(self) -> None:
        for topic in self._moves.get(self._answers, ()):
            if topic not in self._is_done and topic not in self._under_way:
                step = self._random.choice((self._roll, self._cursor, self._trim, self._offload, self._schema))
                self._under_way[topic] = step(topic)
            if topic in self._under_way and next(self._under_way[topic], self) is self:
                del self._under_way[topic]
                self._is_done.add(topic)

    def _end_steps(self) -> None:
        for step in self._under_way.values():
            for _ in step:
                pass
        self._is_done.update(self._under_way)
        self._under_way.clear()

    def _roll(self, topic: str) -> Iterator[None]:
        """Make the next ledger's node, and name it up to a while later."""
        name = topic.removeprefix("persistent://").replace("/t", "/persistent/t")
        made = self._cluster.write_unlisted(messages(2), _custom("managed-ledger", (MANAGED_LEDGER_KEY, name)))
        yield
        kept, empty = self._cluster._with_ended_last(name, None)
        listed = (*kept, LedgerInfo(made, 0, 0, 0))
        self._cluster.change_list(topic, lambda info: replace(info, ledgers=listed))
        yield
        if empty is not None:
            self._cluster.delete_from_bookkeeper(empty, flag=False)

    def _cursor(self, topic: str) -> Iterator[None]:
        listed = self._cluster.list_of(topic).ledgers
        name = topic.removeprefix("persistent://").replace("/t", "/persistent/t")
        node = cursor_path(name, "sub")
        before = self._cluster.nodes.get(node)
        made = self._cluster.add_cursor(topic, "sub", (listed[0].ledger_id, 0), stale=(listed[0].ledger_id, 0))
        after = self._cluster.nodes[node]
        if before is None:
            self._cluster.zookeeper.delete(node)
        else:
            self._cluster.zookeeper.set(node, before)
        # What was made in one step above is now as it is between the two: the ledger is there, nobody names it.
        yield
        self._cluster.zookeeper.set(node, after)
        yield
        old = self._last_cursor.get(topic)
        if old is not None:
            self._cluster.delete_from_bookkeeper(old, flag=False)
        self._last_cursor[topic] = made

    def _trim(self, topic: str) -> Iterator[None]:
        listed = self._cluster.list_of(topic).ledgers
        if len(listed) < 2:
            return
        gone = listed[0]
        self._cluster.trim(topic, gone.ledger_id, only_list=True)
        yield
        if gone.context is None or not gone.context.is_deleted_from_bookkeeper:
            self._cluster.delete_from_bookkeeper(gone.ledger_id, flag=False)
        yield
        if gone.context is not None and gone.context.uuid is not None:
            for file in self._cluster.bucket().glob(f"{gone.context.uuid}*"):
                file.unlink()

    def _offload(self, topic: str) -> Iterator[None]:
        found = [one for one in self._cluster.list_of(topic).ledgers[:-1] if one.context is None and one.entries]
        if not found:
            return
        ledger_id, uuid = self._random.choice(found).ledger_id, str(UUID(int=self._random.getrandbits(128)))
        self._cluster.offload(topic, ledger_id, uuid=uuid, is_complete=False, objects=["data"])
        yield
        self._cluster.offload(topic, ledger_id, uuid=uuid)
        yield
        self._cluster.delete_from_bookkeeper(ledger_id)

    def _schema(self, topic: str) -> Iterator[None]:
        custom = ("pulsar/schemaId", topic.removeprefix("persistent://"))
        made = write_of(self._cluster, "schema", custom)
        yield
        self._cluster.delete_from_bookkeeper(made, flag=False)


def _custom(component: str, owner: tuple[str, str]) -> tuple[tuple[str, bytes], ...]:
    return (("component", component.encode()), (owner[0], owner[1].encode()), PULSAR)


@pytest.mark.long
def test_nothing_that_lives_is_named_while_a_broker_works(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker goes on between any two answers of ZooKeeper; only an orphan is one by both looks."""
    prepared(cluster.bucket())
    dead = cluster.write_unlisted(messages(1), _custom("managed-ledger", (MANAGED_LEDGER_KEY, NAME)), state=CLOSED)
    broker = _Broker(cluster, seed=19)
    monkeypatch.setattr("ledgerfs_cluster.check.check.time", SimpleNamespace(sleep=broker.end_between_looks))

    kinds, checks = {"_roll", "_cursor", "_trim", "_offload", "_schema"}, 0
    with living(cluster) as opened:
        tier = Tier(open_bucket(cluster.bucket_url()), frozenset({"tier"}))
        while checks < 25 or broker.met_by_looks.keys() != kinds:
            broker.begin()
            time.sleep(0.002)  # what was made is older than the grace of 1 ms
            cluster.zookeeper.instead = dict.fromkeys((MULTI_READ, GET_CHILDREN, GET_DATA), broker.answered)
            done = check_cluster(opened, NewestEntries(opened.reading), [tier], Rules(1, 0), lambda *_: None)
            cluster.zookeeper.instead = {}
            assert done.passes == 2
            assert [(one.kind, one.ledger_ids) for one in done.findings] == [(FindingKind.ORPHAN_LEDGER, (dead,))]
            checks += 1
            assert checks < 500, broker.met_by_looks
