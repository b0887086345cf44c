"""A cluster that will be lost: what its producers, brokers, bookies and operators do until then, each a function of a topic.

`WrittenLedgers` is told of each entry. A cluster into which topics were restored is one, too.
"""

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from ledgerfs import open_bucket
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.repair import plan_repair
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import CursorInfo, parse_cursor_info, parse_position_info
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, Position, parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import coordinator_log_path, cursor_path
from tests.cluster.model.dump_history import Moment
from tests.cluster.model.written_ledgers import Entry, WrittenLedgers, copies_in, is_made
from tests.cluster.support.live_clusters import LiveCluster

Act = Callable[[str], None]
SUBSCRIPTION = "s"


@dataclass
class LosingCluster:
    """See the module.

    Attributes
    ----------
    topics
        Those that it has; ``may_make`` are those that it may still get.
    open
        {topic: its transactions that have not ended}; ``transactions`` tells how many there were.
    forgotten
        Ledgers that are deleted from BookKeeper, so that nobody may read them from disks.

    """

    cluster: LiveCluster
    ledgers: WrittenLedgers
    chance: random.Random
    topics: list[str]
    may_make: list[str] = field(default_factory=list)
    open: dict[str, set[int]] = field(default_factory=dict)
    forgotten: set[int] = field(default_factory=set)
    transactions: Counter[str] = field(default_factory=Counter)

    def acts(self) -> list[Act]:
        """Return what may happen, the usual several times."""
        usual = [self.publish] * 5 + [self.begin, self.end, self.end, self.roll_over, self.roll_over]
        usual += [self.offload] * 3 + [self.acknowledge, self.replicate_again, self.delete_from_bookkeeper]
        return [
            *usual,
            self.trim,
            self.lose,
            self.repair,
            self.offload_again,
            self.crash,
            self.make_topic,
            *[self.advance_ids] * 2,
        ]

    def moment(self) -> Moment:
        """Return it as it is now."""
        written = self.cluster.written
        return Moment(
            {topic: self.cluster.list_of(topic).ledgers for topic in self.topics},
            {
                one: (len(some), len(some) + len(self.ledgers.unacknowledged.get(one, ())))
                for one, some in self.ledgers.entries.items()
                if one in written
            },
            frozenset(one for one, made in written.items() if not made.node.is_closed),
            self._cursors(),
            {one: made.node.ensembles for one, made in written.items() if one not in self.forgotten},
        )

    @property
    def bucket(self) -> Path:
        """The folder of its bucket."""
        return self.cluster.bucket()

    def last(self, topic: str) -> int:
        """Return the id of the ledger that is written."""
        return self.cluster.list_of(topic).ledgers[-1].ledger_id

    # Producers.

    def publish(self, topic: str) -> None:
        """Send messages, of transactions or not."""
        of = [0, *sorted(self.open.get(topic, ()))]
        self._add(topic, *(Entry(self._value(), self.chance.choice(of)) for _ in range(self.chance.randint(1, 4))))

    def begin(self, topic: str) -> None:
        """Begin a transaction with a message."""
        # Counted by topics, so that clusters which count from 0 would give the same ids in the same topics.
        self.transactions[topic] += 1
        number = given_before(self.cluster) + self.transactions[topic]
        self.open.setdefault(topic, set()).add(number)
        self._add(topic, Entry(self._value(), number))

    def end(self, topic: str) -> None:
        """Commit, or abort, a transaction."""
        if self.open.get(topic):
            one = self.chance.choice(sorted(self.open[topic]))
            self.open[topic].discard(one)
            self._add(topic, Entry(None, one, self.chance.choice(["committed", "aborted"])))

    def be_cut_off(self, topic: str) -> None:
        """Have a transaction under way, or one that just ended, in what is offloaded."""
        self.begin(topic)
        if self.chance.random() < 0.5:
            self.end(topic)
        self.roll_over(topic)
        self.offload(topic)

    def acknowledge(self, topic: str) -> None:
        """Have the subscription somewhere, perhaps with acknowledged entries behind a hole."""
        sizes = {one.ledger_id: self._size(one) for one in self.cluster.list_of(topic).ledgers}
        sizes = {one: size for one, size in sizes.items() if size}
        if not sizes:
            return
        at = self.chance.choice(list(sizes))
        mark = self.chance.randint(-1, sizes[at] - 1)
        holes = []
        if mark < sizes[at] - 2:
            first = self.chance.randint(mark + 1, sizes[at] - 2)
            holes = [(Position(at, first), Position(at, self.chance.randint(first + 1, sizes[at] - 1)))]
        stale = self.chance.choice([None, (min(sizes), -1)])
        self.cluster.add_cursor(topic, SUBSCRIPTION, (at, mark), holes=holes, stale=stale)

    # Brokers.

    def make_topic(self, _: str) -> None:
        """Make one topic more."""
        if self.may_make and self.chance.random() < 0.3:
            topic = self.may_make.pop()
            self.topics.append(topic)
            self.ledgers.begin(self.cluster.write_ledger(topic, ()), topic)

    def advance_ids(self, topic: str) -> None:
        """Go on in another block of ids, as when somebody restores something else into the cluster, with a transaction under way.

        Not in later blocks: those that are left below 2^35 are for recoveries.
        """
        if max(self.cluster.written, default=0) >> 32 > 1:
            return
        self.begin(topic)
        self.cluster.advance_ids()
        self.roll_over(topic)

    def roll_over(self, topic: str) -> None:
        """Close the last ledger, and begin another one."""
        if self.ledgers.entries[self.last(topic)]:
            self.ledgers.begin(self.cluster.roll_over(topic), topic)

    def offload(self, topic: str) -> None:
        """Offload a closed ledger."""
        due = [one.ledger_id for one in self.cluster.list_of(topic).ledgers[:-1] if not one.is_offloaded]
        if due:
            self._offload(topic, self.chance.choice(due))

    def offload_again(self, topic: str) -> None:
        """Offload one that is offloaded, as after a list that was lost: there are two copies then."""
        there = copies_in(self.bucket)
        done = [one for one in self.cluster.list_of(topic).ledgers[:-1] if one.is_offloaded and one.ledger_id in there]
        done = [one for one in done if one.ledger_id in self._in_bookkeeper()]
        if done:
            self._offload(topic, self.chance.choice(done).ledger_id)

    def delete_from_bookkeeper(self, topic: str) -> None:
        """Delete BookKeeper's copy of an offloaded ledger; bookies may have it for some time."""
        listed = self.cluster.list_of(topic).ledgers[:-1]
        done = [one.ledger_id for one in listed if one.is_offloaded and one.ledger_id in self._in_bookkeeper()]
        if done:
            one = self.chance.choice(done)
            self.cluster.delete_from_bookkeeper(one, collected=self.chance.random() < 0.5)
            self.forgotten.add(one)

    def trim(self, topic: str) -> None:
        """Let the oldest ledger expire; its objects may stay, as where a deletion failed."""
        ledgers = self.cluster.list_of(topic).ledgers
        if len(ledgers) > 2 and self.chance.random() < 0.5:
            only_list = self.chance.random() < 0.5
            self.cluster.trim(topic, ledgers[0].ledger_id, only_list=only_list)
            if not only_list:
                self.forgotten.add(ledgers[0].ledger_id)

    def crash(self, topic: str) -> None:
        """End a broker whose last entry came to one bookie alone; the next one closes the ledger before it."""
        ledger_id = self.last(topic)
        if self.ledgers.entries[ledger_id]:
            lost = Entry(self._value())
            self.cluster.append(ledger_id, [lost.frame()], only_on=1)
            self.ledgers.unacknowledged[ledger_id] = [lost]
            self.ledgers.begin(self.cluster.roll_over(topic), topic)

    # Bookies, and people.

    def replicate_again(self, topic: str) -> None:
        """Have other bookies get what a ledger has, as where one of its own is away for long."""
        some = [one.ledger_id for one in self.cluster.list_of(topic).ledgers if one.ledger_id in self._in_bookkeeper()]
        some = [one for one in some if self.ledgers.entries[one]]
        if some:
            one = self.chance.choice(some)
            is_open = not self.cluster.written[one].node.is_closed
            self.cluster.change_ensemble(one, len(self.ledgers.entries[one]) if is_open else 0)

    def lose(self, topic: str) -> None:
        """Have somebody delete the objects of a ledger, all copies or one."""
        there = copies_in(self.bucket)
        done = [one.ledger_id for one in self.cluster.list_of(topic).ledgers if one.ledger_id in there]
        if done and self.chance.random() < 0.3:
            one = self.chance.choice(done)
            gone = self.chance.choice(["*", *sorted(there[one])])
            for file in self.bucket.glob(f"{gone}-ledger-{one}"):
                file.unlink()
                file.with_name(f"{file.name}-index").unlink(missing_ok=True)

    def repair(self, _: str) -> None:
        """Have an index that a recovery wrote deleted, and made again from the data object."""
        if not copies_in(self.bucket):
            return
        made = [one for one in open_bucket(self.cluster.bucket_url()).refresh().refs() if is_made(one)]
        for ref in self.chance.sample(made, min(1, len(made))):
            index = self.bucket / ref.object("index").key
            index.unlink()
            for path in self.bucket.glob(f"*-ledger-{ref.ledger_id}*"):
                os.utime(path, (1.7e9, 1.7e9))
            plan = plan_repair(self.cluster.bucket_url(), topic=ref.topic, ledgers=[ref.ledger_id])
            assert [one.error for one in plan.carry_out()] == [None] * len(plan.to_do)
            assert index.exists()

    def _in_bookkeeper(self) -> set[int]:
        return self.cluster.written.keys() - self.forgotten

    def _offload(self, topic: str, ledger_id: int) -> None:
        # The same in each walk of this seed.
        self.cluster.offload(topic, ledger_id, uuid=str(UUID(int=self.chance.getrandbits(128), version=4)))

    def _add(self, topic: str, *some: Entry) -> None:
        ledger_id = self.last(topic)
        self.cluster.append(ledger_id, [one.frame() for one in some])
        self.ledgers.entries[ledger_id] += some

    def _value(self) -> str:
        self.ledgers.values += 1
        return f"v{self.ledgers.values}"

    def _size(self, one: LedgerInfo) -> int:
        return one.entries or len(self.ledgers.entries[one.ledger_id])

    def _cursors(self) -> dict[str, CursorInfo]:
        nodes, found = self.cluster.nodes, {}
        for topic in self.topics:
            data = nodes.get(self.cluster.chroot + cursor_path(managed_ledger_of(topic), SUBSCRIPTION))
            if data is not None:
                found[topic] = self._state(topic, data)
        return found

    def _state(self, topic: str, node: bytes) -> CursorInfo:
        reported = parse_cursor_info(node, key=topic)
        if reported.is_in_the_node:
            return reported
        newest = self.cluster.written[reported.cursors_ledger].payloads[-1]
        return parse_position_info(newest, key=topic)


def given_before(cluster: LiveCluster) -> int:
    """Return the number behind which the coordinator of transactions begins."""
    data = cluster.nodes.get(cluster.chroot + (path := coordinator_log_path(7)))
    return 0 if data is None else int(dict(parse_managed_ledger_info(data, key=path).properties)["max_local_txn_id"])
