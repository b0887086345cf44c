"""States of a cluster that a doctor has to name, in a cluster of ours; each is made as a broker that dies, or a mishap, makes it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_path
from tests.cluster.support.live_clusters import CLOSED, LiveCluster, messages

PULSAR = ("application", b"pulsar")
SPACE = "persistent://public/orphans"


@dataclass
class Made:
    """What was made: kinds, and what a finding of each is about: a ledger's id, or the key of an object."""

    named: set[tuple[str, int | str]] = field(default_factory=set)

    def add(self, kind: str, *about: int | str) -> None:
        self.named |= {(kind, one) for one in about}


def topic_of_ledgers(cluster: LiveCluster, name: str, ledgers: int = 4) -> list[int]:
    """Write a topic whose last ledger is open."""
    return [cluster.write_ledger(name, messages(30 + n)) for n in range(ledgers)]


def make_orphans(cluster: LiveCluster) -> Made:
    """Make one of each kind of orphans and loss."""
    made = Made()
    ids = topic_of_ledgers(cluster, f"{SPACE}/ledgers")
    for one in ids[:2]:
        cluster.trim(f"{SPACE}/ledgers", one, only_list=True)
    made.add("orphan-ledger", *ids[:2])
    marks = topic_of_ledgers(cluster, f"{SPACE}/cursor")
    made.add("orphan-cursor-ledger", cluster.add_cursor(f"{SPACE}/cursor", "gone", (marks[0], 3), stale=(marks[0], 1)))
    cluster.zookeeper.delete(cursor_path(managed_ledger_of(f"{SPACE}/cursor"), "gone"))
    cluster.add_cursor(f"{SPACE}/cursor", "alive", (marks[0], 3), stale=(marks[0], 1))
    topic_of_ledgers(cluster, f"{SPACE}/schema")
    cluster.add_schema(f"{SPACE}/schema", SchemaInfo("STRING", b"", {}))
    cluster.add_schema(f"{SPACE}/cursor", SchemaInfo("STRING", b"", {}))
    made.add("orphan-schema-ledger", *cluster.schema_ledgers(f"{SPACE}/schema"))
    cluster.zookeeper.delete("/schemas/public/orphans/schema")
    flagged = topic_of_ledgers(cluster, f"{SPACE}/flagged")[0]
    cluster.offload(f"{SPACE}/flagged", flagged, objects=())
    cluster.delete_from_bookkeeper(flagged, node=False, collected=False)
    made.add("flagged-deleted", flagged)
    made.add("lost-objects", flagged)
    absent = topic_of_ledgers(cluster, f"{SPACE}/absent")[1]
    cluster.zookeeper.delete(ledger_path(absent))
    made.add("lost-ledger", absent)
    pair, lone = uuid4(), uuid4()
    for key in (f"{pair}-ledger-{ids[0]}", f"{pair}-ledger-{ids[0]}-index", f"{lone}-ledger-{ids[2]}"):
        (cluster.bucket() / key).write_bytes(b"orphan")
    made.add("orphan-object", f"{pair}-ledger-{ids[0]}", f"{lone}-ledger-{ids[2]}")
    return made


def make_crash_in_trim(cluster: LiveCluster) -> Made:
    """Have a broker die between its update of the list and the deletions."""
    made, topic = Made(), "persistent://public/crash/t"
    ids = topic_of_ledgers(cluster, topic, 20)
    for one in ids[:15]:
        cluster.trim(topic, one, only_list=True)
    made.add("orphan-ledger", *ids[:15])
    return made


def make_half_offloads(cluster: LiveCluster) -> Made:
    """Have offloads stop: prepared, with data alone, with both objects, and called complete with objects that are none."""
    made = Made()
    for state, objects in (
        ("prepared", ()),
        ("data", ("data",)),
        ("both", ("data", "index")),
        ("complete", ("data", "index")),
    ):
        topic = f"persistent://public/half/{state}"
        first = topic_of_ledgers(cluster, topic, 2)[0]
        uuid = cluster.offload(topic, first, objects=objects, is_complete=state == "complete")
        for one in cluster.bucket().glob(f"{uuid}*"):
            one.write_bytes(b"unfinished")
        if state == "complete":
            made.add("truncated-offload", first)
    return made


def write_of(cluster: LiveCluster, component: str, owner: tuple[str, str], **options: object) -> int:
    """Write a ledger of a component that no list of ledgers names."""
    custom = (("component", component.encode()), (owner[0], owner[1].encode()), PULSAR)
    return cluster.write_unlisted(messages(3), custom, **{"state": CLOSED, **options})


def about(findings: Sequence[dict[str, object]]) -> set[tuple[str, int | str]]:
    """Return what findings in JSON are about, as `Made` has it."""
    found: set[tuple[str, int | str]] = set()
    for one in findings:
        kind, ledgers = str(one["kind"]), one["ledgers"]
        if kind == "orphan-object":
            found.add((kind, str(one["subject"]).rpartition("/")[2]))
        else:
            found |= {(kind, int(ledger)) for ledger in ledgers}
    return found


def prepared(folder: Path) -> Path:
    """Make the bucket's folder, which a cluster without offloads does not have."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder
