"""A whole cluster of ours for tests: ZooKeeper's nodes, bookies and buckets as a broker leaves them, on loopback and in a folder.

`LiveCluster` plays the broker: it writes ledgers, rolls them over, offloads, trims and deletes them in the order in which a broker does, so
that readers may watch meanwhile. Its lists of ledgers are stored in the order of Java's hash maps, which is not that of the ids. Whoever
only reads leaves `LiveCluster.not_reads` empty and `LiveCluster.nodes` as they were.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.formats.ledger_metadata import MANAGED_LEDGER_KEY, DigestType
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.formats.topic_names import encode_topic, managed_ledger_of
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import Ensemble, LedgerNode, LedgerState, ledger_path
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import IN_THE_NODE, CursorInfo, Hole, build_cursor_info
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    Position,
    build_managed_ledger_info,
    parse_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from ledgerfs_cluster.formats.managed_ledgers.stored_values import compressed
from ledgerfs_cluster.formats.stored_schema import StoredVersion, locator_path
from ledgerfs_cluster.snapshot.bundles import namespace_of
from tests.cluster.support.bookies import BookieServer
from tests.cluster.support.encoders import build_ledger_node, build_locator, build_position_info, build_stored_schema
from tests.cluster.support.live_ledgers import WrittenLedger
from tests.cluster.support.live_offloads import S3, context, driver_properties, remove_objects, write_objects
from tests.cluster.support.zookeeper import ZooKeeperServer
from tests.support.entries import NONE, compress, frame, metadata
from tests.support.ledgers import CREATED_MS

TOPIC = "public/default/orders"
OPEN, IN_RECOVERY, CLOSED = LedgerState.OPEN, LedgerState.IN_RECOVERY, LedgerState.CLOSED
_APPLICATION = ("application", b"pulsar")


def messages(count: int, prefix: str = "m", *, first: int = 0, size: int = 0, **fields: object) -> list[bytes]:
    """Return entries of one message each, as a client makes them: the values are ``<prefix><number>``, filled up to ``size`` bytes."""
    return [
        frame(
            metadata(sequence_id=i, publish_time_ms=CREATED_MS + i, **fields), f"{prefix}{i}".encode().ljust(size, b".")
        )
        for i in range(first, first + count)
    ]


def ledgers_of(bucket: Bucket, topic: str) -> list[tuple[int, list[bytes]]]:
    """Return the ledgers of a topic of a bucket, such as the golden one: ids, and their entries."""
    return [
        (
            one.ref.ledger_id,
            [bytes(entry) for batch in one.batches(one.first_entry, one.last_entry) for _, entry in batch],
        )
        for one in bucket.topic(topic).ledgers
    ]


def as_java_hashes(ledger_ids: Iterable[int]) -> list[int]:
    """Return ids in the order of a ``HashMap<Long, …>`` that was copied from a sorted map, as brokers store them after an offload."""
    ids = sorted(ledger_ids)
    table = 1
    while table < int(len(ids) / 0.75 + 1):
        table *= 2

    def slot(ledger_id: int) -> int:
        code = (ledger_id ^ ledger_id >> 32) & 0xFFFFFFFF
        return (code ^ code >> 16) & table - 1

    return sorted(ids, key=slot)


class LiveCluster:
    """ZooKeeper, bookies and a folder of buckets, and the broker that fills them. For ``with``; any thread may call it.

    Parameters
    ----------
    folder
        Its folder ``buckets`` has a folder for each bucket.
    bookies
        How many.
    first_ledger_id
        Ids ascend from here, whatever the topic. Three ledgers from 150 on are listed as 152, 150, 151.
    chroot
        The path below which ZooKeeper has all of it.
    compression
        The codec (`tests.support.entries`) of lists of ledgers and of cursors.
    instance_id
        By which BookKeeper tells it from other clusters.

    Attributes
    ----------
    buckets
        The folder of its buckets; before it begins, another one may be set, to have the same as another cluster.
    zookeeper
        Its server.
    bookies
        Its bookies, which may be killed and started again.
    written
        Each ledger by id, also those that are deleted.
    created_ms
        When the node of each was made, ms since 1970 UTC.

    """

    def __init__(
        self,
        folder: Path,
        *,
        bookies: int = 3,
        first_ledger_id: int = 150,
        chroot: str = "",
        compression: int = NONE,
        instance_id: str = "47099c88-d3cd-44de-91a6-f8bc42d28371",
    ) -> None:
        self.buckets = folder / "buckets"
        self._instance_id = instance_id
        self.zookeeper = ZooKeeperServer()
        self.bookies = [BookieServer() for _ in range(bookies)]
        self.chroot = chroot
        self.compression = compression
        self.written: dict[int, WrittenLedger] = {}
        self.created_ms: dict[int, int] = {}
        self._by_address = {one.address: one for one in self.bookies}
        self._lists: dict[str, ManagedLedgerInfo] = {}
        self._namespaces: set[str] = set()
        self._schemas: dict[str, list[StoredVersion]] = {}
        self._deleted: set[int] = set()
        self._next_id = first_ledger_id
        self._changes = threading.RLock()
        self._servers = ExitStack()

    def __enter__(self) -> Self:
        # Released locks are free, on a busy machine, too: `ClusterLock.release` waits for ZooKeeper to end the session.
        patch = self._servers.enter_context(pytest.MonkeyPatch.context())
        patch.setattr("ledgerfs_cluster.zookeeper.client._END_S", 300.0)
        for one in (self.zookeeper, *self.bookies):
            self._servers.enter_context(one)
        self._set("/ledgers/LAYOUT", b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1")
        self._set("/ledgers/INSTANCEID", self._instance_id.encode())
        self._set("/ledgers/available/readonly", b"")
        self._set("/ledgers/idgen/ID-", b"")
        self._set("/ledgers/underreplication/ledgers", b"")
        self._set("/managed-ledgers", b"")
        self._set("/schemas", b"")
        for one in self.bookies:
            self._set(f"/ledgers/available/{one.address}", _service_info(one.address))
            self._set(f"/ledgers/cookies/{one.address}", f'5\nbookieHost: "{one.address}"\n'.encode())
        return self

    def __exit__(self, *_: object) -> None:
        self._servers.close()

    @property
    def url(self) -> str:
        """``pulsar+zk://…``."""
        return f"pulsar+zk://{self.zookeeper.address}{self.chroot}"

    @property
    def nodes(self) -> dict[str, bytes]:
        """All nodes of ZooKeeper: the same before and after whatever only reads."""
        return self.zookeeper.nodes

    def not_reads(self) -> list[object]:
        """Return whatever came to any server and was no read."""
        return [*self.zookeeper.not_reads, *(one for bookie in self.bookies for one in bookie.not_reads)]

    # Ledgers.

    def write_ledger(
        self,
        topic: str,
        payloads: Sequence[bytes],
        *,
        ensemble: int = 3,
        write_quorum: int = 2,
        ack_quorum: int = 2,
        **options: Any,
    ) -> int:
        """Write the next ledger of a topic, and return its id; ``options`` are those of `write_ledgers`.

        The ledger before it is closed by that, at ``closed_ms`` or now; one without entries goes, as it does in a broker. The last ledger
        of a topic is listed without entries, bytes and time whatever its state: closed, the topic is one that its broker has unloaded.
        """
        quorums = (ensemble, write_quorum, ack_quorum)
        return self.write_ledgers(topic, [payloads], quorums=quorums, **options)[0]

    def write_ledgers(
        self, topic: str, many: Iterable[Sequence[bytes]], *, closed_ms: int | None = None, **options: Any
    ) -> list[int]:
        """Write the next ledgers of a topic, each closed but perhaps the last, with one change of the list at the end; return their ids.

        ``options`` are those of `write_unlisted`.
        """
        name = managed_ledger_of(topic)
        custom = (("component", b"managed-ledger"), (MANAGED_LEDGER_KEY, name.encode()), _APPLICATION)
        with self._changes:
            kept, empty = self._with_ended_last(name, closed_ms)
            made = [self.write_unlisted(payloads, custom, **options) for payloads in many]
            for ledger_id in made[:-1]:
                if not self.written[ledger_id].node.is_closed:
                    self.close(ledger_id)
            listed = [*(self._ended(one, closed_ms) for one in made[:-1]), LedgerInfo(made[-1], 0, 0, 0)]
            # One change, as a broker's: readers count them.
            self.change_list(topic, lambda info: replace(info, ledgers=(*kept, *listed)))
            if empty is not None:
                self.delete_from_bookkeeper(empty, flag=False)
            return made

    def write_unlisted(
        self,
        payloads: Sequence[bytes],
        custom: Sequence[tuple[str, bytes]],
        *,
        quorums: tuple[int, int, int] = (3, 2, 2),
        digest: Digest | DigestType = DigestType.CRC32C,
        state: LedgerState = OPEN,
        confirmed: int | None = None,
        ledger_id: int | None = None,
        created_ms: int | None = None,
    ) -> int:
        """Write a ledger that no list names, with this custom metadata: of a schema, of a cursor, or an orphan. Return its id.

        Parameters
        ----------
        digest
            With a password or without.
        confirmed
            The last entry that the writer knew to be confirmed while it wrote, as in one pipelined burst; None if each add was acknowledged
            before the next one.
        ledger_id
            None for the next one.
        created_ms
            When its node was made, ms since 1970 UTC; None for now.

        """
        with self._changes:
            made = self._next_id if ledger_id is None else ledger_id
            assert made not in self.written, f"there was a ledger {made}"
            self._next_id = max(self._next_id, made + 1)
            size = min(quorums[0], len(self.bookies))
            # Another bookie is first in each ledger, of those that live.
            alive = [one.address for one in self.bookies if one.is_running]
            assert len(alive) >= size, f"{len(alive)} bookies live, and the ensemble has {size}"
            members = tuple(alive[(made + k) % len(alive)] for k in range(size))
            node = LedgerNode(
                made,
                OPEN,
                size,
                *(min(one, size) for one in quorums[1:]),
                length=0,
                last_entry=-1,
                digest=digest if isinstance(digest, Digest) else Digest(digest),
                ensembles=(Ensemble(0, members),),
                custom=tuple(custom),
            )
            ledger = self.written[made] = WrittenLedger(node)
            self.created_ms[made] = _now() if created_ms is None else created_ms
            self._set(ledger_path(made), build_ledger_node(node), self.created_ms[made])
            self.append(made, payloads, confirmed=confirmed)
            if state == CLOSED:
                self.close(made)
            elif state != OPEN:
                ledger.node = replace(ledger.node, state=state)
                self._put_node(made)
            return made

    def append(
        self, ledger_id: int, payloads: Sequence[bytes], *, confirmed: int | None = None, only_on: int | None = None
    ) -> list[int]:
        """Write entries to an open ledger, and return their ids.

        ``confirmed`` is as in `write_ledger`. ``only_on`` is on how many bookies each is put: on fewer than the ack quorum it was never
        acknowledged, and no later one is.
        """
        with self._changes:
            ledger = self.written[ledger_id]
            assert not ledger.node.is_closed, f"ledger {ledger_id} is closed"
            ensembles = ledger.node.ensembles
            ids = ledger.append(self._by_address, payloads, confirmed, only_on)
            if ledger.node.ensembles != ensembles:
                self._put_node(ledger_id)
            return ids

    def publish(self, topic: str, payloads: Sequence[bytes]) -> list[tuple[int, int]]:
        """Write entries to the last ledger of a topic, and return their positions."""
        with self._changes:
            ledger_id = self.list_of(topic).ledgers[-1].ledger_id
            return [(ledger_id, entry_id) for entry_id in self.append(ledger_id, payloads)]

    def change_ensemble(self, ledger_id: int, from_entry: int, members: Sequence[BookieServer] | None = None) -> None:
        """Have other bookies from an entry on, as after a failure: those given, or the others first."""
        with self._changes:
            ledger = self.written[ledger_id]
            old = ledger.node.ensembles[-1].bookies
            others = [one.address for one in self.bookies if one.address not in old]
            new = [*others, *old[1:], old[0]] if members is None else [one.address for one in members]
            ledger.change_ensemble(self._by_address, from_entry, new[: ledger.node.ensemble_size])
            self._put_node(ledger_id)

    def close(self, ledger_id: int, last_entry: int | None = None) -> None:
        """Close a ledger in BookKeeper, after the last acknowledged entry unless told; the list changes with the next ledger."""
        with self._changes:
            self.written[ledger_id].close(last_entry)
            self._put_node(ledger_id)

    def roll_over(self, topic: str, *, closed_ms: int | None = None, **options: Any) -> int:
        """Close the last ledger, and begin another one, whose id is returned; as does loading a topic."""
        return self.write_ledger(topic, (), closed_ms=closed_ms, **options)

    def load_restored(self, topic: str) -> int:
        """Load a topic whose list somebody else has made, as after a recovery; return the id of the ledger that begins.

        The last ledger of that list, which BookKeeper does not have, goes. Ids go on where the newest folder of their generator begins.
        """
        name = managed_ledger_of(topic)
        with self._changes:
            path = self.chroot + managed_ledger_path(name)
            self._lists[name] = parse_managed_ledger_info(self.nodes[path], key=path)
            folders = [int(path.rpartition("-")[2]) for path in self.nodes if "/idgen-long/HOB-" in path]
            self._next_id = max(self._next_id, max(folders, default=0) << 32)
            return self.write_ledger(topic, ())

    def advance_ids(self) -> None:
        """Have ids go on in another block of 2³², as when something is restored into the cluster."""
        with self._changes:
            block = (self._next_id >> 32) + 1
            self.zookeeper.set(f"/ledgers/idgen-long/HOB-{block:010d}", b"")
            self._next_id = block << 32

    def terminate(self, topic: str) -> None:
        """Close a topic for ever."""
        last = self.list_of(topic).ledgers[-1].ledger_id
        self.close(last)
        end = Position(last, self.written[last].node.last_entry)
        self.change_list(topic, lambda info: replace(info, terminated=end))

    # What becomes of ledgers.

    def offload(
        self,
        topic: str,
        ledger_id: int,
        *,
        driver: str = S3,
        bucket: str = "tier",
        endpoint: str = "",
        region: str = "us-east-1",
        uuid: str | None = None,
        is_complete: bool = True,
        objects: Sequence[str] = ("data", "index"),
        offloaded_ms: int | None = None,
    ) -> str:
        """Offload a ledger as a broker does, or as far as it came: objects first, then the context. Return the uuid.

        ``bucket`` names a folder of ``buckets``; ``objects`` stay of those that are written. The last ledger of a topic is never offloaded.
        """
        with self._changes:
            listed = self.list_of(topic).ledgers
            assert ledger_id in [one.ledger_id for one in listed[:-1]], "no broker offloads this ledger: roll it over"
            uuid = str(uuid4()) if uuid is None else uuid
            node = self.written[ledger_id].node
            files = write_objects(
                self.bucket(bucket),
                driver,
                ledger_id,
                uuid,
                # Brokers take the time of the node, since Pulsar's ledgers have none of their own.
                replace(node.closed_at(node.last_entry, node.length), created_ms=self.created_ms[ledger_id]),
                self.written[ledger_id].payloads[: node.last_entry + 1],
            )
            for role in {"data", "index"} - set(objects):
                files[role].unlink()
            properties = driver_properties(driver, self.bucket(bucket), endpoint=endpoint, region=region)
            made = context(uuid, driver, properties, is_complete=is_complete, offloaded_ms=offloaded_ms)
            self.change_ledger(topic, ledger_id, lambda info: replace(info, context=made))
            return uuid

    def delete_from_bookkeeper(
        self, ledger_id: int, *, flag: bool = True, node: bool = True, collected: bool = True
    ) -> None:
        """Delete BookKeeper's copy of a ledger in a broker's order: the flag in the list, the node, and in time each bookie's entries.

        Without ``collected`` bookies still answer; `collect` ends that.
        """
        with self._changes:
            for name, info in self._lists.items():
                for one in info.ledgers:
                    if flag and one.ledger_id == ledger_id and one.context is not None:
                        gone = replace(one.context, is_deleted_from_bookkeeper=True)
                        self.change_ledger(name, ledger_id, lambda info, gone=gone: replace(info, context=gone))
            if node:
                self.zookeeper.delete(self.chroot + ledger_path(ledger_id))
                self._deleted.add(ledger_id)
            if collected:
                self.collect(ledger_id)

    def collect(self, ledger_id: int, *bookies: BookieServer) -> None:
        """Have bookies, or all, forget a ledger that is deleted."""
        for one in bookies or self.bookies:
            one.remove_ledger(ledger_id)

    def trim(self, topic: str, ledger_id: int, *, only_list: bool = False, collected: bool = True) -> None:
        """Remove a ledger in a broker's order: from the list, from BookKeeper, its objects; ``only_list`` if the broker dies then."""
        with self._changes:
            gone = next(one for one in self.list_of(topic).ledgers if one.ledger_id == ledger_id)
            self.change_list(
                topic, lambda info: replace(info, ledgers=tuple(one for one in info.ledgers if one != gone))
            )
            if only_list:
                return
            is_in_bookkeeper = gone.context is None or not gone.context.is_deleted_from_bookkeeper
            if is_in_bookkeeper:
                self.delete_from_bookkeeper(ledger_id, flag=False, collected=collected)
            if gone.context is not None and gone.context.uuid is not None:
                bucket = Path(gone.context.get("bucket") or (gone.context.get("storageBasePath") or "")).name
                name = managed_ledger_of(topic)
                remove_objects(self.bucket(bucket), gone.context.driver, name, ledger_id, gone.context.uuid)

    def leave_open(self, ledger_id: int) -> None:
        """Have a ledger as it is whose broker went on without closing it, as where ZooKeeper did not answer."""
        with self._changes:
            ledger = self.written[ledger_id]
            ledger.node = replace(ledger.node, state=OPEN, length=0, last_entry=-1)
            self._put_node(ledger_id)

    def bucket(self, name: str = "tier") -> Path:
        """Return the folder of a bucket."""
        return self.buckets / name

    def bucket_url(self, name: str = "tier") -> str:
        """Return the ``file://`` URL of a bucket."""
        return f"file://{self.bucket(name)}"

    # Lists.

    def list_of(self, topic: str) -> ManagedLedgerInfo:
        """Return the ledgers of a topic, by id."""
        return self._lists.get(managed_ledger_of(topic), ManagedLedgerInfo(()))

    def change_list(self, topic: str, change: Callable[[ManagedLedgerInfo], ManagedLedgerInfo]) -> None:
        """Store another list of ledgers: for what no broker would do."""
        with self._changes:
            name = managed_ledger_of(topic)
            info = change(self.list_of(topic))
            by_id = {one.ledger_id: one for one in info.ledgers}
            stored = replace(info, ledgers=tuple(by_id[one] for one in as_java_hashes(by_id)))
            self._store_list(name, self._compressed(build_managed_ledger_info(stored)))
            self._lists[name] = replace(info, ledgers=tuple(by_id[one] for one in sorted(by_id)))

    def _store_list(self, name: str, data: bytes) -> None:
        namespace = namespace_of(name)
        if namespace not in self._namespaces:
            # No broker loads a topic of a namespace that is not there.
            self.set_policies(namespace)
        path = managed_ledger_path(name)
        # What somebody else has made, as a recovery does, is changed as a broker changes it.
        self._set(path, data, None if self.chroot + path in self.nodes else _LISTS_MADE_MS)

    def change_ledger(self, topic: str, ledger_id: int, change: Callable[[LedgerInfo], LedgerInfo]) -> None:
        """Store another line of the list."""
        self.change_list(
            topic,
            lambda info: replace(
                info, ledgers=tuple(change(one) if one.ledger_id == ledger_id else one for one in info.ledgers)
            ),
        )

    def entries_of(self, topic: str) -> list[tuple[int, int, bytes]]:
        """Return what a reader of a topic has to find: ledger, entry and payload of all that is listed and acknowledged."""
        with self._changes:
            found = []
            for one in self.list_of(topic).ledgers:
                ledger = self.written[one.ledger_id]
                last = ledger.node.last_entry if ledger.node.is_closed else ledger.acknowledged
                found += [(one.ledger_id, i, payload) for i, payload in enumerate(ledger.payloads[: last + 1])]
            return found

    # What else a topic has.

    def add_cursor(
        self,
        topic: str,
        name: str,
        mark_delete: tuple[int, int],
        *,
        holes: Sequence[Hole] = (),
        stale: tuple[int, int] | None = None,
        last_active_ms: int | None = None,
        properties: Mapping[str, int] | None = None,
        cursor_properties: Mapping[str, str] | None = None,
    ) -> int:
        """Add or replace a subscription; return the id of its ledger, or -1.

        With ``stale`` a broker has the topic loaded, or died: the node has that position, and the last entry of the cursor's ledger the
        state.
        """
        state = CursorInfo(
            IN_THE_NODE,
            Position(*mark_delete),
            tuple(holes),
            last_active_ms,
            tuple((properties or {}).items()),
            tuple((cursor_properties or {}).items()),
        )
        managed_ledger = managed_ledger_of(topic)
        with self._changes:
            ledger_id, node = IN_THE_NODE, state
            if stale is not None:
                states = [replace(state, mark_delete=Position(*stale), holes=()), state]
                ledger_id = self.add_states(topic, name, *states)
                node = replace(states[0], cursors_ledger=ledger_id)
            self._set(cursor_path(managed_ledger, name), self._compressed(build_cursor_info(node)))
            return ledger_id

    def add_states(self, topic: str, name: str, *states: CursorInfo) -> int:
        """Write a ledger for the states of a subscription, which does not name it; return its id."""
        custom = (
            ("component", b"managed-ledger"),
            (MANAGED_LEDGER_KEY, managed_ledger_of(topic).encode()),
            ("pulsar/cursor", encode_topic(name).encode()),
            _APPLICATION,
        )
        return self.write_unlisted([build_position_info(one) for one in states], custom)

    def add_schema(
        self, topic: str, schema: SchemaInfo, *, timestamp_ms: int = CREATED_MS, is_deletion: bool = False
    ) -> SchemaVersion:
        """Add the next version of a topic's schema: an entry in a ledger of its own, and the locator."""
        with self._changes:
            path = locator_path(topic)
            name = path.removeprefix("/schemas/")
            before = self._schemas.setdefault(path, [])
            version = SchemaVersion(len(before), schema, timestamp_ms, is_deletion)
            custom = (("component", b"schema"), ("pulsar/schemaId", name.encode()), _APPLICATION)
            ledger_id = self.write_unlisted([build_stored_schema(name, version, before)], custom, state=CLOSED)
            digest = b"" if is_deletion else sha256(schema.data).digest()
            before.append(StoredVersion(version.version, Position(ledger_id, 0), digest))
            self._set(path, build_locator(before))
            return version

    def schema_ledgers(self, topic: str) -> list[int]:
        """Return the ledgers of the versions of a topic's schema, in their order."""
        return [one.position.ledger_id for one in self._schemas[locator_path(topic)]]

    def delete_schemas(self, topic: str) -> None:
        """Delete the schemas of a topic by force: the locator, then the ledgers. The next version is 0 again."""
        with self._changes:
            gone = self.schema_ledgers(topic)
            self.zookeeper.delete(self.chroot + locator_path(topic))
            del self._schemas[locator_path(topic)]
            for one in gone:
                self.delete_from_bookkeeper(one, flag=False)

    def put_schemas(self, path: str, locator: bytes, entries: Mapping[tuple[int, int], bytes]) -> None:
        """Put a locator of another cluster, and the entries that it names, as (ledger, entry): of each ledger the first one alone."""
        with self._changes:
            for (ledger_id, entry_id), payload in entries.items():
                assert entry_id == 0, "a schema is the first entry of its ledger"
                custom = (("component", b"schema"), ("pulsar/schemaId", path.removeprefix("/schemas/").encode()))
                self.write_unlisted([payload], (*custom, _APPLICATION), state=CLOSED, ledger_id=ledger_id)
            self._set(path, locator)

    def set_policies(self, namespace: str, **policies: object) -> None:
        """Set the policies of a namespace, such as ``retention_policies``, as ZooKeeper has them."""
        self._namespaces.add(namespace)
        self._set(f"/admin/policies/{namespace}", json.dumps({"deleted": False, **policies}).encode())

    def set_bundles(self, namespace: str, *boundaries: str) -> None:
        """Set the boundaries of a namespace's bundles, such as ``0x00000000``, ``0xffffffff``."""
        bundles = {"bundles": {"boundaries": boundaries, "numBundles": len(boundaries) - 1}}
        self._set(f"/admin/local-policies/{namespace}", json.dumps(bundles).encode())

    def own_bundle(self, namespace: str, bundle: str, broker: str = "pulsar://127.0.0.1:6650") -> None:
        """Have a broker own a bundle, such as ``0x00000000_0xffffffff``."""
        self._set(f"/namespace/{namespace}/{bundle}", json.dumps({"nativeUrl": broker, "disabled": False}).encode())

    def set_partitions(self, topic: str, partitions: int) -> None:
        """Note that a topic has partitions; each is a topic of its own."""
        namespace, _, name = managed_ledger_of(topic).partition("/persistent/")
        path = f"/admin/partitioned-topics/{namespace}/persistent/{name}"
        self._set(path, json.dumps({"partitions": partitions}).encode())

    def _with_ended_last(self, name: str, closed_ms: int | None) -> tuple[Sequence[LedgerInfo], int | None]:
        """Close the last ledger of a topic; return the ledgers with its size, without it if it has no entries, and its id then."""
        listed = self.list_of(name).ledgers
        if not listed:
            return (), None
        last = listed[-1].ledger_id
        ledger = self.written.get(last)
        if ledger is None or last in self._deleted:
            # A broker forgets a last ledger that BookKeeper does not have.
            return listed[:-1], None
        if not ledger.node.is_closed:
            self.close(last)
        if ledger.node.last_entry < 0:
            return listed[:-1], last
        return (*listed[:-1], self._ended(last, closed_ms)), None

    def _ended(self, ledger_id: int, closed_ms: int | None) -> LedgerInfo:
        node = self.written[ledger_id].node
        return LedgerInfo(ledger_id, node.last_entry + 1, node.length, _now() if closed_ms is None else closed_ms)

    def _put_node(self, ledger_id: int) -> None:
        self._set(ledger_path(ledger_id), build_ledger_node(self.written[ledger_id].node))

    def _compressed(self, value: bytes) -> bytes:
        return (
            value
            if self.compression == NONE
            else compressed(value, self.compression, compress(self.compression, value))
        )

    def _set(self, path: str, data: bytes, created_ms: int | None = None) -> None:
        self.zookeeper.set(self.chroot + path, data, created_ms=created_ms)


_LISTS_MADE_MS = 1_000_000_000_000
"""Lists are older than all their ledgers, however old tests make these."""


def _now() -> int:
    return time.time_ns() // 1_000_000


def _service_info(address: str) -> bytes:
    """Return what a bookie says of itself: one endpoint of its own protocol."""
    host, _, port = address.rpartition(":")
    number = int(port)
    varint = bytes([number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14])
    parts = (b"\x0a\x06bookie\x10", varint, b"\x1a", bytes([len(host)]), host.encode(), b"\x22\x0abookie-rpc")
    endpoint = b"".join(parts)
    return b"\x32" + bytes([len(endpoint)]) + endpoint
