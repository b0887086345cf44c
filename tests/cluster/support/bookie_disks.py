"""Disks of bookies for tests: those that real ones left (the golden sets), and ones that are made here, entry by entry."""

import base64
import json
import lzma
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ledgerfs.formats.ledger_metadata import MANAGED_LEDGER_KEY, Ensemble, LedgerState
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from ledgerfs_cluster.formats.bookkeeper.entry_log_header import EntryLogHeader
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode, ledger_path
from ledgerfs_cluster.formats.bookkeeper.stored_entries import build_stored_entry
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    build_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.snapshot.dump_file import DumpEnd, DumpHeader, DumpWriter
from ledgerfs_cluster.zookeeper.node import Node
from tests.cluster.support.encoders import build_ledger_node, build_log_header

NOT_ENDED = EntryLogHeader(1, 0, 0)
GOLDEN = Path(__file__).parent.parent.parent / "data" / "golden"


def golden_disk(name: str, folder: Path) -> Path:
    """Unpack a golden set, and return its folder: ``ledgers`` is the disk, ``dump.json.zst`` the metadata, ``expected`` Java's rows."""
    with lzma.open(GOLDEN / f"{name}.tar.xz") as packed, tarfile.open(fileobj=packed) as tar:
        tar.extractall(folder)  # our own archive; Debian's Python 3.11.2 knows no filters yet
    found = folder / name
    nodes = json.loads((found / "metadata.json").read_text())
    # How often a node was set is not in the set: a list that is empty was not set.
    write_dump(
        found / "dump.json.zst", (Node(path, base64.b64decode(data), 1, 1, 0, 0) for path, data in nodes.items())
    )
    return found


def write_dump(path: Path, nodes: Iterable[Node], ledgers_path: str = "/ledgers") -> None:
    """Write nodes as ``ledgerfs cluster dump`` does."""
    with path.open("wb") as file:
        writer = DumpWriter(file)
        writer.write(DumpHeader("pulsar+zk://test:2181", ledgers_path, 1))
        written = [writer.write(node) for node in nodes]
        writer.write(DumpEnd(len(written), 2))
        writer.flush()


@dataclass
class MadeLedger:
    """A ledger whose entries can be put on disks."""

    ledger_id: int
    bookies: tuple[str, ...] = ("b1:3181",)
    write_quorum: int = 1
    ack_quorum: int = 1
    digest: Digest = field(default_factory=Digest)
    payloads: list[bytes] = field(default_factory=list)
    managed_ledger: str | None = None

    def stored(self, entry: int, confirmed: int | None = None) -> bytes:
        """Return an entry as a bookie stores it."""
        length = sum(map(len, self.payloads[: entry + 1]))
        known = entry - 1 if confirmed is None else confirmed
        return build_stored_entry(self.ledger_id, entry, known, length, self.payloads[entry], self.digest)

    def node(self, *, is_closed: bool = True, last: int | None = None) -> LedgerNode:
        """Return its metadata."""
        end = len(self.payloads) - 1 if last is None else last
        named = () if self.managed_ledger is None else ((MANAGED_LEDGER_KEY, self.managed_ledger.encode()),)
        return LedgerNode(
            ledger_id=self.ledger_id,
            state=LedgerState.CLOSED if is_closed else LedgerState.OPEN,
            ensemble_size=len(self.bookies),
            write_quorum=self.write_quorum,
            ack_quorum=self.ack_quorum,
            length=sum(map(len, self.payloads[: end + 1])) if is_closed else 0,
            last_entry=end if is_closed else -1,
            digest=self.digest,
            ensembles=(Ensemble(0, self.bookies),),
            custom=(("application", b"pulsar"), ("component", b"managed-ledger"), *named),
        )

    def zookeeper_node(self, *, is_closed: bool = True, last: int | None = None) -> Node:
        """Return its node in ZooKeeper."""
        return Node(
            ledger_path(self.ledger_id), build_ledger_node(self.node(is_closed=is_closed, last=last)), 1000, 1000, 0, 0
        )


def list_node(managed_ledger: str, *ledgers: LedgerInfo) -> Node:
    """Return the node of a topic's list of ledgers."""
    data = build_managed_ledger_info(ManagedLedgerInfo(ledgers))
    return Node(managed_ledger_path(managed_ledger), data, 1, 1, 1, 0)


def make_disk(folder: Path, bookie: str = "b1:3181", instance: str | None = None) -> Path:
    """Make an empty disk of a bookie, and return its folder ``current``."""
    current = folder / "current"
    current.mkdir(parents=True)
    cluster = "" if instance is None else f'instanceId: "{instance}"\n'
    reported = f'5\nbookieHost: "{bookie}"\njournalDir: "/journal"\nledgerDirs: "1\\t/ledgers"\n{cluster}'
    (current / "VERSION").write_text(reported)
    return current


def write_log(current: Path, number: int, entries: Sequence[bytes], header: EntryLogHeader = NOT_ENDED) -> Path:
    """Write an entry log that has these stored entries."""
    path = current / f"{number:x}.log"
    path.write_bytes(build_log_header(header) + b"".join(len(one).to_bytes(4, "big") + one for one in entries))
    return path
