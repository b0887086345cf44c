"""States of a cluster that operators ask about, made in a real one as crashes, defects and half-done work make them.

Each function makes some, and returns what it made. All nodes are written while no broker has the topic.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

import pulsar
from kazoo.client import KazooClient

from interop.admin import AdminError
from interop.filling import fill, for_each, subscribe
from interop.live_cluster import LiveCluster
from interop.live_producer import connected
from interop.s3_server import BUCKET, S3Server
from interop.surveys import ledgers_of, list_of, path_of
from interop.waiting import wait_until
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path, parse_ledger_node
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import parse_cursor_info
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    OffloadContext,
    build_managed_ledger_info,
)
from ledgerfs_cluster.formats.stored_schema import parse_locator

ENTRIES_A_LEDGER = 100

_ORPHANS, _CRASHED, _HALF = (f"public/{name}" for name in ("orphans", "crashed", "half"))
_SIZE = 100
_MESSAGES = 4 * ENTRIES_A_LEDGER + 50
_TRIMMED_LEDGERS = 120
_TRIES = 5
_OF_AN_OBJECT = {
    "s3managedledgeroffloaderformatversion": "1",
    "pulsarclustername": "interop",
}


@dataclass(frozen=True)
class Orphans:
    """What nobody refers to any more, one of each kind, and what is referred to and is not there.

    Attributes
    ----------
    ledgers
        Taken out of the list of their topic.
    cursor_ledger, schema_ledger
        Of a subscription and a schema whose nodes are gone.
    flagged
        Listed as offloaded and deleted from BookKeeper, while it is there, and the bucket has no objects of it.
    absent
        Listed, and deleted.
    objects
        Keys of objects in the bucket: data and index of one attempt, data of another.

    """

    ledgers: tuple[int, ...]
    cursor_ledger: int
    schema_ledger: int
    flagged: int
    absent: int
    objects: tuple[str, ...]
    topics: dict[str, str]


@dataclass(frozen=True)
class CrashInTrim:
    """A broker ended between its update of a topic's list and the deletions: these ``ledgers`` are left."""

    topic: str
    ledgers: tuple[int, ...]


@dataclass(frozen=True)
class HalfOffload:
    """An offload by another program that stopped: ``prepared``, with ``data``, with ``both`` objects, or noted as ``complete``.

    The objects, of whatever state, have not the bytes of a ledger.
    """

    topic: str
    ledger: int
    uuid: str
    state: str


def make_half_offloads(live: LiveCluster, client: pulsar.Client) -> list[HalfOffload]:
    """Have offloads by another program stop at each of their steps."""
    admin = live.cluster.admin
    admin.make_namespace(_HALF)
    suffixes = {"prepared": (), "data": ("",), "both": ("", "-index"), "complete": ("", "-index")}

    def make(state: str) -> None:
        fill(client, f"persistent://{_HALF}/{state}", _MESSAGES, _SIZE)
        admin.unload(f"persistent://{_HALF}/{state}")

    for_each(suffixes, make)
    made = []
    with live.unrecorded() as nodes:
        for state, some in suffixes.items():
            topic, uuid = f"persistent://{_HALF}/{state}", str(uuid4())
            ledger = ledgers_of(nodes, topic)[0].ledger_id
            _set_context(nodes, topic, ledger, _context(live.s3, uuid, is_complete=state == "complete"))
            for suffix in some:
                live.s3.put(f"{uuid}-ledger-{ledger}{suffix}", b"unfinished", _OF_AN_OBJECT)
            made.append(HalfOffload(topic, ledger, uuid, state))
    return made


def make_orphans_in_a_crash(live: LiveCluster) -> tuple[Orphans, CrashInTrim]:
    """Kill the broker while it trims, and take away what is in use; no broker is left."""
    admin = live.cluster.admin
    admin.make_namespace(_ORPHANS)
    topics = {name: f"persistent://{_ORPHANS}/{name}" for name in ("ledgers", "cursor", "schema", "flagged", "absent")}
    with connected(live.cluster.service_url) as client:
        filled = [topic for topic in topics.values() if topic != topics["schema"]]
        for_each(filled, lambda topic: fill(client, topic, _MESSAGES, _SIZE))
        client.create_producer(topics["schema"], schema=pulsar.schema.StringSchema()).send("text")
        subscribe(client, topics["cursor"], "gone", (number for number in range(130) if number % 5 != 4))
    crash = _crash_in_a_trim(live)
    with live.unrecorded() as nodes:
        return _take_away(live, nodes, topics), crash


def ledgers_of_schemas_that_brokers_lost(nodes: KazooClient, ledgers: set[int]) -> set[int]:
    """Return the ledgers of schemas whose node does not name them: brokers leave some when two make a schema at once."""
    named: set[int] = set()
    found: set[int] = set()
    for ledger_id in ledgers:
        metadata = dict(parse_ledger_node(nodes.get(ledger_path(ledger_id))[0], ledger_id, key="").custom)
        if metadata.get("component") != b"schema":
            continue
        path = "/schemas/" + metadata["pulsar/schemaId"].decode()
        found.add(ledger_id)
        if nodes.exists(path) is not None:
            named |= {one.position.ledger_id for one in parse_locator(nodes.get(path)[0], key=path)}
    return found - named


def _crash_in_a_trim(live: LiveCluster) -> CrashInTrim:
    """Kill the broker in the middle of a trim; on a busy machine it may have ended one by then, and another topic is tried."""
    for number in range(_TRIES):
        if number:
            live.cluster.start_broker(live.s3)
        # In a namespace of its own: once nothing is retained there is nothing to trim.
        namespace = f"{_CRASHED}-{number}"
        topic = f"persistent://{namespace}/trimmed"
        live.cluster.admin.make_namespace(namespace)
        with connected(live.cluster.service_url) as client:
            fill(client, topic, ENTRIES_A_LEDGER * _TRIMMED_LEDGERS, _SIZE)
        left = _kill_while_trimming(live, namespace, topic)
        if left:
            return CrashInTrim(topic, left)
    raise AssertionError(f"the broker had deleted all ledgers each of {_TRIES} times when it was killed")


def _kill_while_trimming(live: LiveCluster, namespace: str, topic: str) -> tuple[int, ...]:
    """Kill the broker as soon as the list of a topic is shorter; return the ledgers that were to be deleted, and are not."""
    admin = live.cluster.admin
    with live.unrecorded() as nodes:
        before = [one.ledger_id for one in ledgers_of(nodes, topic)]
        killed: list[object] = []

        def kill(event: object) -> None:
            live.cluster.processes.kill("broker")
            killed.append(event)

        admin.set_retention(namespace, 0, 0)
        nodes.get(path_of(topic), watch=kill)
        end = time.monotonic() + 60
        while not killed:
            try:
                admin.trim(topic)
                time.sleep(0.1)
            except (OSError, AdminError):
                # The broker is gone, or on its way.
                wait_until(lambda: killed, "the broker is killed", end - time.monotonic())
        listed = {one.ledger_id for one in ledgers_of(nodes, topic)}
        return tuple(one for one in before if one not in listed and nodes.exists(ledger_path(one)))


def _take_away(live: LiveCluster, nodes: KazooClient, topics: dict[str, str]) -> Orphans:
    first, second, third, *_ = (one.ledger_id for one in ledgers_of(nodes, topics["ledgers"]))
    _change(nodes, topics["ledgers"], lambda ledgers: [one for one in ledgers if one.ledger_id not in {first, second}])
    cursor = f"{path_of(topics['cursor'])}/gone"
    cursor_ledger = parse_cursor_info(nodes.get(cursor)[0], key=cursor).cursors_ledger
    nodes.delete(cursor)
    schema = f"/schemas/{topics['schema'].removeprefix('persistent://')}"
    (schema_ledger,) = (number for number in live.cluster.bookkeeper_ledgers() if _is_of_schema(nodes, number, schema))
    nodes.delete(schema)
    flagged = ledgers_of(nodes, topics["flagged"])[0].ledger_id
    context = _context(live.s3, str(uuid4()), is_complete=True, is_deleted=True)
    _set_context(nodes, topics["flagged"], flagged, context)
    absent = ledgers_of(nodes, topics["absent"])[1].ledger_id
    nodes.delete(ledger_path(absent))
    pair, lone = uuid4(), uuid4()
    keys = (f"{pair}-ledger-{first}", f"{pair}-ledger-{first}-index", f"{lone}-ledger-{third}")
    for key in keys:
        live.s3.put(key, b"orphan", _OF_AN_OBJECT)
    return Orphans((first, second), cursor_ledger, schema_ledger, flagged, absent, keys, topics)


def _is_of_schema(nodes: KazooClient, ledger_id: int, schema: str) -> bool:
    """Whether the custom metadata of a ledger names a schema."""
    return schema.removeprefix("/schemas/").encode() in nodes.get(ledger_path(ledger_id))[0]


def _change(nodes: KazooClient, topic: str, change: Callable[[Sequence[LedgerInfo]], Sequence[LedgerInfo]]) -> None:
    """Write the list of a topic anew; all else in the node stays."""
    info, stat = list_of(nodes, topic)
    written = build_managed_ledger_info(replace(info, ledgers=tuple(change(info.ledgers))))
    nodes.set(path_of(topic), written, version=stat.version)


def _set_context(nodes: KazooClient, topic: str, ledger_id: int, context: OffloadContext) -> None:
    def change(ledgers: Sequence[LedgerInfo]) -> list[LedgerInfo]:
        return [replace(one, context=context) if one.ledger_id == ledger_id else one for one in ledgers]

    _change(nodes, topic, change)


def _context(s3: S3Server, uuid: str, *, is_complete: bool, is_deleted: bool = False) -> OffloadContext:
    properties = {
        "bucket": BUCKET,
        "managedLedgerOffloadDriver": "AWS_S3",
        "region": "us-east-1",
        "serviceEndpoint": s3.endpoint,
    }
    at_ms = time.time_ns() // 1_000_000 if is_complete else None
    return OffloadContext(uuid, is_complete, is_deleted, at_ms, "aws-s3", tuple(properties.items()))
