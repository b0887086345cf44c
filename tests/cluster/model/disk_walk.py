"""Bookies whose disks are read while they write, compact, collect, crash and come back, and disks go and are damaged.

An entry that two bookies have acknowledged is read as it was written, whoever reads: who lists the disks anew, who listed them long ago,
and who lacks one of three disks. Of a ledger that is not closed all that was acknowledged is read (``open_end="recovered"``).
"""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.findings import Severity
from ledgerfs.verification.verify import verify
from ledgerfs_cluster.formats.bookkeeper.entry_log_header import LOG_HEADER_BYTES, EntryLogHeader, LedgersMap
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from tests.cluster.support.bookie_disks import MadeLedger, list_node, make_disk, write_dump
from tests.cluster.support.encoders import build_ledgers_map, build_log_header

BOOKIES = ("b1:3181", "b2:3181", "b3:3181")
TOPIC = "t/n/persistent/x"
_JOURNAL_HEADER = b"BKLG" + (4).to_bytes(4, "big")


@dataclass
class ModelLedger:
    """A ledger, and what became of it."""

    made: MadeLedger
    acknowledged: int = 0
    is_closed: bool = False
    is_listed: bool = True


@dataclass
class ModelBookie:
    """One bookie: entries that only its journal has, and its logs by number; ``folder`` is its disk.

    Of ``damaged`` entries a bit is flipped in a log, in the entry itself if it is one of ``flipped``, else in the size before it.
    """

    folder: Path
    name: str
    unflushed: list[tuple[int, int]] = field(default_factory=list)
    logs: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: {0: []})
    current: int = 0
    damaged: set[tuple[int, int]] = field(default_factory=set)
    flipped: set[tuple[int, int]] = field(default_factory=set)

    @property
    def logs_folder(self) -> Path:
        return self.folder / "ledgers" / "current"

    @property
    def journal(self) -> Path:
        return self.folder / "journal" / "current" / "1.txn"


class DiskWalk(RuleBasedStateMachine):
    """The walk."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="disks-"))
        self.ledgers: dict[int, ModelLedger] = {}
        self.next_id = 1
        self.kept: Bucket | None = None

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @initialize()
    def start(self) -> None:
        self.bookies = [ModelBookie(self.folder / f"disk{i}", name) for i, name in enumerate(BOOKIES)]
        for bookie in self.bookies:
            make_disk(bookie.folder / "ledgers", bookie.name)
            make_disk(bookie.folder / "journal", bookie.name)
            bookie.journal.write_bytes(_JOURNAL_HEADER)
            self._write_log(bookie, 0)
        self._open_ledger()

    @rule(count=st.integers(1, 6), size=st.integers(0, 400))
    def append(self, count: int, size: int) -> None:
        """Add entries to the open ledger, each to two bookies' journals; it is acknowledged by both."""
        ledger = self._open()
        for _ in range(count):
            entry = len(ledger.made.payloads)
            ledger.made.payloads.append(bytes([entry % 251]) * size + b"%d:%d" % (ledger.made.ledger_id, entry))
            for bookie in self._holders(entry):
                self._journal(bookie, (ledger.made.ledger_id, entry))
            ledger.acknowledged = len(ledger.made.payloads)

    @rule(which=st.integers(0, 2))
    def append_to_one(self, which: int) -> None:
        """Add an entry that one bookie alone has yet, since its writer crashes: the ledger ends before it, or behind it."""
        ledger = self._open()
        entry = len(ledger.made.payloads)
        bookie = self._holders(entry)[which % 2]
        ledger.made.payloads.append(b"never acknowledged")
        self._journal(bookie, (ledger.made.ledger_id, entry))
        self._close(ledger, ledger.acknowledged)

    @rule()
    def roll_over(self) -> None:
        """Close the open ledger, and make another one."""
        self._close(self._open(), self._open().acknowledged)

    @rule(which=st.integers(0, 2), count=st.integers(1, 20))
    def flush(self, which: int, count: int) -> None:
        """Write entries of the journal to the current log, in the order of ledgers, as the usual storage does."""
        bookie = self.bookies[which]
        some, bookie.unflushed = sorted(bookie.unflushed[:count]), bookie.unflushed[count:]
        bookie.logs[bookie.current] += some
        self._append_to_log(bookie, some)
        if not bookie.unflushed:
            bookie.journal.write_bytes(_JOURNAL_HEADER)

    @rule(which=st.integers(0, 2))
    def roll_log(self, which: int) -> None:
        """End the current log with its map, and begin the next one."""
        bookie = self.bookies[which]
        self._write_log(bookie, bookie.current, is_ended=True)
        bookie.current += 1
        bookie.logs[bookie.current] = []
        self._write_log(bookie, bookie.current)

    @rule(which=st.integers(0, 2), at=st.integers(0, 10))
    def compact(self, which: int, at: int) -> None:
        """Write what lives in an old log again, and delete the log."""
        bookie = self.bookies[which]
        old = sorted(set(bookie.logs) - {bookie.current})
        if not old:
            return
        number = old[at % len(old)]
        living = [one for one in bookie.logs.pop(number) if one[0] in self.ledgers]
        bookie.logs[bookie.current] += living
        self._append_to_log(bookie, living)
        (bookie.logs_folder / f"{number:x}.log").unlink()

    @rule(at=st.integers(0, 10))
    def trim(self, at: int) -> None:
        """Delete the oldest closed ledger: its entries stay on the disks until they are collected."""
        closed = sorted(one for one, ledger in self.ledgers.items() if ledger.is_closed)
        if closed and at < 4:
            del self.ledgers[closed[0]]

    @rule(which=st.integers(0, 2), at=st.integers(0, 100))
    def damage(self, which: int, at: int) -> None:
        """Flip a bit of a copy in a log, as long as the other copy of the entry is sound."""
        bookie = self.bookies[which]
        bookie.flipped |= self._damage(bookie, at, lambda place, size: (place + size - 1, 0x10))

    @rule(which=st.integers(0, 2), at=st.integers(0, 100), bit=st.integers(0, 31))
    def damage_size(self, which: int, at: int, bit: int) -> None:
        """Flip a bit of a record's size in a log: what lies behind it is to be found all the same."""
        self._damage(self.bookies[which], at, lambda place, _: (place - 1 - bit // 8, 1 << bit % 8))

    def _damage(self, bookie: ModelBookie, at: int, bit: Callable[[int, int], tuple[int, int]]) -> set[tuple[int, int]]:
        """Flip the bit that ``bit`` tells by the place and the size of an entry: where, and which one there; return the entry."""
        places = [(number, row) for number, some in bookie.logs.items() for row in range(len(some))]
        if not places:
            return set()
        number, row = places[at % len(places)]
        ledger_id, entry = bookie.logs[number][row]
        is_alone = any((ledger_id, entry) in one.damaged for one in self.bookies)
        if is_alone or ledger_id not in self.ledgers:
            return set()
        path = bookie.logs_folder / f"{number:x}.log"
        data = bytearray(path.read_bytes())
        stored = self.ledgers[ledger_id].made.stored(entry)
        place = data.find(stored)
        if place < 0:
            return set()
        where, flipped = bit(place, len(stored))
        data[where] ^= flipped
        path.write_bytes(data)
        bookie.damaged.add((ledger_id, entry))
        return {(ledger_id, entry)}

    @rule()
    def verify(self) -> None:
        """Have all copies compared: as each entry has a sound one, nothing is lost, and what is damaged is told."""
        report = verify(self._bucket((0, 1, 2)))
        wanted = {one: ledger for one, ledger in self.ledgers.items() if ledger.acknowledged}
        assert report.entries >= sum(ledger.acknowledged for ledger in wanted.values())
        reported = [(one.severity, one.kind, one.message) for one in report.findings]
        assert not [one for one in reported if one[0] is not Severity.REMARK], reported
        if any(one[0] in wanted for bookie in self.bookies for one in bookie.flipped):
            assert [one for one in reported if one[1] == "damaged-copy"], reported

    @rule(which=st.integers(0, 2), size=st.integers(1, 60))
    def crash(self, which: int, size: int) -> None:
        """End a bookie in the middle of a record: what it had not acknowledged is half in its log."""
        bookie = self.bookies[which]
        with (bookie.logs_folder / f"{bookie.current:x}.log").open("ab") as file:
            file.write((100 + size).to_bytes(4, "big") + bytes([which + 1]) * size)
        # It begins another log when it comes back.
        bookie.current += 1
        bookie.logs[bookie.current] = []
        self._write_log(bookie, bookie.current)

    @rule()
    def list_and_keep(self) -> None:
        """Have a reader list the disks, who is asked later."""
        self.kept = self._bucket((0, 1, 2))
        self.kept.load_catalog()

    @precondition(lambda self: self.kept is not None)
    @rule()
    def read_what_was_kept(self) -> None:
        """Read by the old listing what still lives: logs that it knew may be gone."""
        assert self.kept is not None
        for ref in self.kept.catalog.refs():
            ledger = self.ledgers.get(ref.ledger_id)
            if ledger is not None:
                read = [bytes(one.data) for one in self.kept.ledger(ref.ledger_id).read(0, ref.last_entry)]
                assert read == ledger.made.payloads[: ref.last_entry + 1]

    @rule(away=st.none() | st.integers(0, 2))
    def read(self, away: int | None) -> None:
        """Read all ledgers of a new listing, perhaps without one disk; nothing is lost, nothing appears."""
        damaged = {one for bookie in self.bookies for one in bookie.damaged if one[0] in self.ledgers}
        if away is not None and damaged:
            return
        bucket = self._bucket(tuple(sorted({0, 1, 2} - {away})))
        found = {ref.ledger_id: ref.last_entry for ref in bucket.catalog.refs()}
        wanted = {one: ledger for one, ledger in self.ledgers.items() if ledger.acknowledged}
        assert found.keys() == wanted.keys()
        for ledger_id, ledger in wanted.items():
            assert found[ledger_id] == ledger.acknowledged - 1
            read = [bytes(one.data) for one in bucket.ledger(ledger_id).read(0, found[ledger_id])]
            assert read == ledger.made.payloads[: ledger.acknowledged]

    @invariant()
    def one_ledger_is_open(self) -> None:
        """See to the walk itself."""
        if self.ledgers:
            assert sum(not ledger.is_closed for ledger in self.ledgers.values()) == 1

    def _open(self) -> ModelLedger:
        return next(ledger for ledger in self.ledgers.values() if not ledger.is_closed)

    def _open_ledger(self) -> None:
        self.ledgers[self.next_id] = ModelLedger(MadeLedger(self.next_id, BOOKIES, 2, 2))
        self.next_id += 1

    def _close(self, ledger: ModelLedger, entries: int) -> None:
        ledger.is_closed, ledger.acknowledged = True, entries
        self._open_ledger()

    def _holders(self, entry: int) -> list[ModelBookie]:
        return [self.bookies[(entry + k) % 3] for k in range(2)]

    def _journal(self, bookie: ModelBookie, one: tuple[int, int]) -> None:
        bookie.unflushed.append(one)
        stored = self.ledgers[one[0]].made.stored(one[1])
        with bookie.journal.open("ab") as file:
            file.write(len(stored).to_bytes(4, "big") + stored)

    def _records(self, some: list[tuple[int, int]]) -> bytes:
        stored = [self._stored(one) for one in some]
        return b"".join(len(one).to_bytes(4, "big") + one for one in stored)

    def _stored(self, one: tuple[int, int]) -> bytes:
        ledger = self.ledgers.get(one[0])
        return (
            MadeLedger(one[0], payloads=[b"gone"] * (one[1] + 1)).stored(one[1])
            if ledger is None
            else ledger.made.stored(one[1])
        )

    def _append_to_log(self, bookie: ModelBookie, some: list[tuple[int, int]]) -> None:
        bookie.damaged -= set(some)
        bookie.flipped -= set(some)
        with (bookie.logs_folder / f"{bookie.current:x}.log").open("ab") as file:
            file.write(self._records(some))

    def _write_log(self, bookie: ModelBookie, number: int, *, is_ended: bool = False) -> None:
        path = bookie.logs_folder / f"{number:x}.log"
        if not is_ended:
            path.write_bytes(build_log_header(EntryLogHeader(1, 0, 0)))
            return
        import numpy as np

        ids = np.unique(np.array([one[0] for one in bookie.logs[number]], np.int64))
        sizes = np.array(
            [
                sum(len(self._stored(one)) + 4 for one in bookie.logs[number] if one[0] == ledger)
                for ledger in ids.tolist()
            ],
            np.int64,
        )
        end = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(end)
            file.write(build_ledgers_map(LedgersMap(ids, sizes)))
            file.seek(0)
            file.write(build_log_header(EntryLogHeader(1, max(end, LOG_HEADER_BYTES), ids.size))[:20])

    def _bucket(self, given: tuple[int, ...]) -> Bucket:
        infos, nodes = [], []
        for ledger_id, ledger in sorted(self.ledgers.items()):
            nodes.append(ledger.made.zookeeper_node(is_closed=ledger.is_closed, last=ledger.acknowledged - 1))
            infos.append(LedgerInfo(ledger_id, 0, 0, 0, None))
        dump = self.folder / "dump"
        dump.unlink(missing_ok=True)
        write_dump(dump, [*nodes, list_node(TOPIC, *infos)])
        paths = ",".join(str(self.bookies[number].folder) for number in given)
        options = {"metadata": str(dump), "open_end": "recovered"}
        return open_bucket(f"bookies://{paths}", options, cache_dir=str(self.folder / "cache"))
