"""Steps of a lifecycle service, of a broker and of readers, by a seed; in the end, after some quiet passes, nothing is left over.

A pass of the service may be met by any of the others at any of its requests, die there, have its store or ZooKeeper fail, or lose its
session to a second service and go on. What it changes is judged at once (`lifecycle_audit.py`), and after each step a new reader
finds all rows.
"""

from collections.abc import Callable
from pathlib import Path

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.errors import (
    AccessDeniedError,
    ArchivedObjectError,
    LedgerfsError,
    NotFoundError,
    StaleObjectError,
    StoreUnreachableError,
)
from ledgerfs_cluster.check.check import Rules, check_cluster
from ledgerfs_cluster.check.tier_listing import Tier
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs_cluster.live_source.newest_entries import NewestEntries
from ledgerfs_cluster.offload.journal import ROOT
from ledgerfs_cluster.rules.findings import FindingKind
from ledgerfs_cluster.zookeeper.changes import LOCK_PATH
from tests.cluster.model import lifecycle_acts as acts
from tests.cluster.model.broker_admin import BrokerAdmin
from tests.cluster.model.lifecycle_world import KEPT, LifecycleWorld
from tests.cluster.model.living_cluster import Met, Walk, meeting
from tests.cluster.model.service_requests import ALL, CHANGES, LISTS, Requests
from tests.cluster.model.shared_cluster import namespace_of
from tests.cluster.support.zookeeper import WriteFault

_MOST_REQUESTS, _MOST_CHANGES = 400, 60
_QUIET_PASSES = 7
_OF_STORES: tuple[type[LedgerfsError], ...] = (AccessDeniedError, StoreUnreachableError, ArchivedObjectError)
_LEFT_OVER = {
    FindingKind.ORPHAN_LEDGER,
    FindingKind.ORPHAN_CURSOR_LEDGER,
    FindingKind.ORPHAN_OBJECT,
}


class LifecycleWalk(Walk):
    """`Walk` with a service that writes."""

    world: LifecycleWorld

    def new_world(self, folder: Path) -> LifecycleWorld:
        world = LifecycleWorld(folder)
        world.admin = BrokerAdmin(world)
        return world

    def run(self, steps: int) -> None:
        """Do so many steps, and then have a service make quiet passes; whatever fails names all that was done."""
        try:
            for number in range(steps):
                self.reported.append(f"{number}:")
                self.step()
                self.look()
            self.end()
        except BaseException as error:
            error.add_note("\n".join(self.reported))
            raise
        finally:
            self.world.close()

    def step(self) -> None:
        for _ in range(self.random.randint(0, 5)):
            self.act(*acts.drawn(self.random, self.world.topics))
        what = self.random.random()
        if what < 0.7:
            self.serve()
            return
        topic, met = self.random.choice(self.world.topics), None
        if self.random.random() < 0.6:
            name, act = self.meanwhile()
            met = self.random.randrange(10), lambda _: act()
            self.reported.append(f"  meanwhile, at {met[0]}: {name}")
        if what < 0.8:
            self.reported.append(f"export {topic}")
            self.export(topic, met, self.world.opened("confirmed"))
        elif what < 0.85:
            self.reported.append("check")
            self.check(met)
        else:
            who, anew = self.random.randrange(2), self.random.random() < 0.5
            self.reported.append(f"read {topic} by {who}{', anew' if anew else ''}")
            self.read(self.world.readers[who], topic, anew=anew, met=met)

    def act(self, name: str, act: acts.LifecycleAct) -> None:
        self.reported.append(name)
        act(self.world)

    # The service.

    def serve(self) -> None:
        """Make a pass, in which something may happen."""
        requests, what = Requests(), self.random.random()
        # Right before a change is where what was read may not hold any more. Early ones are drawn more often: most passes have few.
        kinds = self.random.choice((ALL, CHANGES, CHANGES))
        at = int((_MOST_REQUESTS if kinds is ALL else _MOST_CHANGES) ** self.random.random()) - 1
        where = f"{'request' if kinds is ALL else 'change'} {at}"
        if what < 0.12:
            requests = Requests(self.random.randrange(3), LISTS)
            name, act = acts.of_broker(self.random)
            requests.act = self._wrong_is_reported(lambda: act(self.world, requests.about))
            self.reported.append(f"serve, and before list {requests.at} is set: {name} its topic")
        elif what < 0.5:
            name, act = self.meanwhile(with_service=True)
            requests = Requests(at, kinds, self._wrong_is_reported(act))
            self.reported.append(f"serve, and meanwhile, at {where}: {name}")
        elif what < 0.7:
            requests = Requests(dies_at=at, kinds=kinds)
            self.reported.append(f"serve, and die at {where}")
        elif what < 0.78:
            faults = self.random.sample(list(WriteFault), 2)
            requests = Requests(at, kinds, lambda: self.world.cluster.zookeeper.write_faults.extend(faults))
            self.reported.append(
                f"serve, and of writes from {where} on there are {', '.join(one.name for one in faults)}"
            )
        elif what < 0.88:
            requests = Requests(
                at, kinds, fails=self.random.choice((1, 3, 1000)), error=_OF_STORES[at % len(_OF_STORES)]
            )
            name = requests.error.__name__
            self.reported.append(f"serve, and the store fails from {where} on for {requests.fails} requests: {name}")
        else:
            self.reported.append("serve")
        has_admin = self.random.random() < 0.7
        self.reported.append(f"  {'with' if has_admin else 'without'} a broker that may be asked")
        ended, troubles = self.world.serve(requests, has_admin=has_admin)
        self.world.cluster.zookeeper.write_faults.clear()
        self.reported.append(f"  {requests.count} of these: {ended or 'whole'}; {troubles}")
        assert self.world.cluster.zookeeper.get(LOCK_PATH) is None, "the lock of a service that has ended"

    def meanwhile(self, *, with_service: bool = False) -> tuple[str, Callable[[], None]]:
        """Return something that may happen in the middle of something else, and its name."""
        world, topic, what = self.world, self.random.choice(self.world.topics), self.random.random()
        if what < 0.15:
            anew = self.random.random() < 0.6
            how = "anew" if anew else "by a kept listing"
            return f"read {topic} {how}", lambda: self.read(world.passer_by, topic, anew=anew, met=None)
        if what < 0.18:
            return f"read one of {topic}", lambda: self.read_one(topic)
        if what < 0.2:
            return f"export {topic}", lambda: self.export(topic, None, world.opened("confirmed"))
        if what < 0.23:
            return "check", lambda: self.check(None)
        if with_service and what < 0.25:
            return "another service, which is refused", world.ask_for_the_lock
        if with_service and what < 0.4:
            reports = self.random.random() < 0.5
            if what < 0.32:
                return "another service has the lock", lambda: world.take_the_lock(reports=reports)
            return "another service", lambda: world.replace_service(reports=reports)
        if not with_service and what < 0.4:
            return "serve", self._served
        if what < 0.5:
            some = [acts.drawn(self.random, world.topics) for _ in range(3)]
            return ", ".join(name for name, _ in some), lambda: [act(world) for _, act in some] and None
        if what < 0.65:
            # A topic that looks free, and is not as it was.
            return f"a broker comes to {topic}, and goes", lambda: acts.come_and_go(topic)(world)
        name, act = acts.drawn(self.random, world.topics)
        return name, lambda: act(world)

    def _served(self) -> None:
        self.world.serve()

    def _wrong_is_reported(self, act: Callable[[], None]) -> Callable[[], None]:
        def acted() -> None:
            try:
                act()
            except BaseException as error:
                # In a thread of the service, or where it is taken for an error of its own.
                self.world.audit.wrong.append(repr(error))
                raise

        return acted

    # Looking.

    def look(self) -> None:
        """Have somebody who comes anew read all topics."""
        wrong = self.world.audit.wrong
        assert not wrong, "\n".join(wrong)
        if not self.world.dead():
            for topic in self.world.topics:
                self.read(self.world.readers[1], topic, anew=True, met=None)

    def read_one(self, topic: str) -> None:
        """Read one ledger by its entries' ids, as a mount does that has listed a while ago."""
        world = self.world
        try:
            listed = world.passer_by.bucket.topic(topic).ledgers
        except (StaleObjectError, NotFoundError):
            return
        if not listed:
            return
        one = self.random.choice(listed)
        ledger_id = one.ref.ledger_id
        try:
            found = [bytes(data) for batch in one.batches(0, one.last_entry) for _, data in batch]
        except (StaleObjectError, NotFoundError):
            assert ledger_id in world.trimmed, f"ledger {ledger_id} is gone, and was not trimmed"
            return
        assert found == world.cluster.written[ledger_id].payloads[: len(found)]

    def check(self, met: Met) -> None:
        """Have the doctor look: nothing is lost, whatever is left over in the middle of something."""
        was_dead = bool(self.world.dead())
        with meeting(self.world, met):
            findings = self._findings(0)
        away = {FindingKind.UNDER_REPLICATED} if was_dead or self.world.dead() else set()
        assert not [one for one in findings if one.kind.is_loss and one.kind not in away], f"{findings}"

    def _findings(self, pass_s: float) -> list[object]:
        tier = Tier(open_bucket(self.world.cluster.bucket_url()), frozenset({"tier"}), None)
        with self.world.living() as living:
            return check_cluster(
                living, NewestEntries(living.reading), [tier], Rules(0, pass_s), lambda *_: None
            ).findings

    # The end.

    def end(self) -> None:
        """Have the broker leave, and a service do all that is due; then nothing is left over, and all that was kept is there."""
        world = self.world
        for number in world.dead():
            world.cluster.bookies[number].start()
        for topic in world.topics:
            while world.cluster.is_terminated(topic):
                acts.delete(topic)(world)
            # What was made for a topic that is gone is not deleted: it may be another cluster's.
            world.publish(topic, 1)
            world.broker.unload(namespace_of(topic))
        troubles: list[str] = []
        for _ in range(_QUIET_PASSES):
            world.clock.pass_by(200 * 60_000)
            ended, troubles = world.serve(has_admin=True)
            self.reported.append(f"quiet: {ended or 'whole'}; {troubles}")
            assert not ended
        world.cluster.collect_all()
        assert not troubles
        self.look()
        self._nothing_is_left()

    def _nothing_is_left(self) -> None:
        world = self.world
        noted = {path: data for path, data in world.cluster.nodes.items() if path.startswith(f"{ROOT}/")}
        assert not noted, f"records are left: {noted}"
        listed = {one.ledger_id: one for topic in world.topics for one in world.cluster.list_of(topic).ledgers}
        in_bookkeeper = {one for one in world.cluster.written if world.cluster.zookeeper.get(ledger_path(one))}
        offloaded = {one for one, info in listed.items() if info.is_offloaded}
        lasts = {world.cluster.list_of(topic).ledgers[-1].ledger_id for topic in world.topics}
        # What a broker left open is for its operator to close.
        is_open = {one for one in in_bookkeeper if not world.cluster.written[one].node.is_closed}
        older = (world.older_than_lists() | (is_open - world.broker.named())) - set(listed)
        # What a broker called deleted, and did not delete, is an orphan once it is trimmed.
        flagged = {one for one in offloaded if listed[one].context.is_deleted_from_bookkeeper}  # type: ignore[union-attr]
        assert in_bookkeeper - older - flagged == (set(listed) - offloaded) | world.broker.named()
        kept = {one.ledger_id for topic in KEPT for one in world.cluster.list_of(topic).ledgers}
        assert kept - lasts <= offloaded, "not all is offloaded that is due"
        names = {f"{one.context.uuid}-ledger-{one.ledger_id}" for one in listed.values() if one.context is not None}
        there = {one.name for one in world.cluster.bucket().iterdir()}
        whole = {f"{listed[one].context.uuid}-ledger-{one}" for one in offloaded}  # type: ignore[union-attr]
        # An attempt of a broker that is listed, and not complete, is its next one's to clean up.
        assert {one + end for one in whole for end in ("", "-index")} <= there
        assert there <= {one + end for one in names for end in ("", "-index")}
        left = [
            one
            for one in self._findings(0)
            if one.kind.is_loss or (one.kind in _LEFT_OVER and not set(one.ledger_ids) <= older)
        ]
        assert not left, f"{left}"
