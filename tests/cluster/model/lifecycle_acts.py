"""What happens in a cluster with a lifecycle service, between its passes and in the middle of them."""

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from random import Random
from uuid import uuid4

from ledgerfs.formats.ledger_metadata import MANAGED_LEDGER_KEY
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from tests.cluster.model.lifecycle_world import MINUTE_MS, TERMS, TIMED, LifecycleWorld
from tests.cluster.model.shared_cluster import namespace_of
from tests.cluster.support.live_offloads import S3, context, driver_properties, remove_objects, write_objects

LifecycleAct = Callable[[LifecycleWorld], None]
SUBSCRIPTIONS = ("s", "t")


class Ending(Enum):
    """How a broker ends before it names what it has made."""

    STOP = "stop"
    DIE = "die"


def publish(topic: str, count: int) -> LifecycleAct:
    return lambda world: world.publish(topic, count)


def write(topic: str, ledgers: int) -> LifecycleAct:
    """Fill some ledgers."""

    def act(world: LifecycleWorld) -> None:
        for _ in range(ledgers):
            world.publish(topic, 2)
            roll_over(topic)(world)

    return act


def roll_over(topic: str) -> LifecycleAct:
    def act(world: LifecycleWorld) -> None:
        with world.loaded(topic):
            if world.has(topic) and not world.cluster.is_terminated(topic):
                world.cluster.roll_over(topic)

    return act


def unload(topic: str) -> LifecycleAct:
    return lambda world: world.broker.unload(namespace_of(topic))


def unload_all(world: LifecycleWorld) -> None:
    for topic in world.topics:
        world.broker.unload(namespace_of(topic))


def load(topic: str) -> LifecycleAct:
    return lambda world: world.broker.load(namespace_of(topic))


def take(topic: str) -> LifecycleAct:
    return lambda world: world.broker.take(namespace_of(topic))


def terminate(topic: str) -> LifecycleAct:
    def act(world: LifecycleWorld) -> None:
        with world.loaded(topic):
            if world.has(topic) and not world.cluster.is_terminated(topic):
                world.cluster.terminate(topic)

    return act


def die(world: LifecycleWorld) -> None:
    world.broker.die()


def stop_or_go_on(world: LifecycleWorld) -> None:
    """A stopped broker loses its bundles; one that goes on takes them, with its topics as they were."""
    if world.broker.is_stopped:
        world.broker.go_on()
    else:
        world.broker.stop()


# Subscriptions.


def subscribe(topic: str, name: str, at: float) -> LifecycleAct:
    """Make a subscription, or set one, to a place of the topic: 0 is its beginning. Behind it, all is to be read once more."""

    def act(world: LifecycleWorld) -> None:
        with world.loaded(topic):
            ledgers = world.cluster.list_of(topic).ledgers
            if ledgers:
                one = ledgers[int(at * (len(ledgers) - 1))]
                world.broker.subscribe(topic, name, (one.ledger_id, -1))

    return act


def read_on(topic: str) -> LifecycleAct:
    """All subscriptions read all that is there."""

    def act(world: LifecycleWorld) -> None:
        with world.loaded(topic):
            ledgers = world.cluster.list_of(topic).ledgers
            for name in world.broker.subscriptions[topic] if ledgers else ():
                last = ledgers[-1].ledger_id
                world.broker.subscribe(topic, name, (last, world.cluster.written[last].acknowledged))

    return act


# What brokers do with ledgers.


def make_ledger(topic: str, *, stops: bool = False) -> LifecycleAct:
    """A broker has a ledger made, and lists it later, if it still has the topic as it was; it may be stopped before."""

    def act(world: LifecycleWorld) -> None:
        with world.loaded(topic):
            if world.has(topic) and not world.cluster.is_terminated(topic):
                name = managed_ledger_of(topic).encode()
                reported = (("component", b"managed-ledger"), (MANAGED_LEDGER_KEY, name), ("application", b"pulsar"))
                world.making[topic] = world.cluster.write_unlisted((), reported), world.broker.loads[topic]
        if stops:
            world.broker.stop()

    return act


def list_ledger(topic: str) -> LifecycleAct:
    """A broker lists what it had made before, at the version of the list that it knows: also one that was stopped, and goes on."""

    def act(world: LifecycleWorld) -> None:
        ledger_id, loads = world.making.pop(topic, (-1, -1))
        if topic not in world.broker.loaded or loads != world.broker.loads[topic]:
            return
        with world.loaded(topic):
            ledgers = world.cluster.list_of(topic).ledgers
            if ledgers and ledgers[-1].ledger_id < ledger_id and not world.cluster.is_terminated(topic):
                world.cluster.list_made(topic, ledger_id)

    return act


def make_states(topic: str, name: str, *, ends: Ending | None = None) -> LifecycleAct:
    """A broker has a ledger made for the states of a subscription, and names it later; it may die, or be stopped, before."""

    def act(world: LifecycleWorld) -> None:
        with world.loaded(topic):
            if world.has(topic) and name in world.broker.subscriptions[topic]:
                world.naming[topic, name] = world.broker.make_states(topic, name)
        match ends:
            case Ending.STOP:
                world.broker.stop()
            case Ending.DIE:
                world.broker.die()

    return act


def name_states(topic: str, name: str) -> LifecycleAct:
    """A broker has a subscription name what it had made for it, at the version of the node that it knows: also one that was stopped."""

    def act(world: LifecycleWorld) -> None:
        made = world.naming.pop((topic, name), None)
        if made is None or topic not in world.broker.loaded or made.loads != world.broker.loads[topic]:
            return
        world.broker.go_on()
        if (
            world.broker.name_states(topic, name, made)
            and world.cluster.zookeeper.get(ledger_path(made.ledger_id)) is None
        ):
            world.audit.wrong.append(f"subscription {name} of {topic} names ledger {made.ledger_id}, which is gone")

    return act


def trim(topic: str, *, crashes: bool, is_open: bool = False) -> LifecycleAct:
    """Trim what is past retention; a broker that dies after the list was set leaves the rest to nobody, and may not have closed it."""

    def act(world: LifecycleWorld) -> None:
        with world.loaded(topic):
            now_ms, retention_ms = world.clock.now_ms(), world.audit.retention_ms[topic]
            for one in world.broker.past(topic, retention_ms, now_ms):
                world.trimmed.add(one.ledger_id)
                if is_open and one.context is None:
                    world.cluster.leave_open(one.ledger_id)
                world.cluster.trim(topic, one.ledger_id, only_list=crashes, collected=False)
            if crashes:
                world.broker.die()

    return act


def delete_copies(topic: str, *, crashes: bool) -> LifecycleAct:
    """Delete what is offloaded, behind its lag; a broker that dies has flagged it, and no more."""

    def act(world: LifecycleWorld) -> None:
        with world.loaded(topic):
            for one in world.cluster.list_of(topic).ledgers[:-1]:
                found = one.context
                is_copy = found is not None and found.is_complete and not found.is_deleted_from_bookkeeper
                if found is not None and is_copy and world.clock.now_ms() - (found.offloaded_ms or 0) > TERMS.lag_ms:
                    world.cluster.delete_from_bookkeeper(one.ledger_id, node=not crashes, collected=False)
            if crashes:
                world.broker.die()

    return act


def begin_offload(topic: str) -> LifecycleAct:
    """A broker notes an attempt in the list, and uploads: what an earlier attempt left goes before."""

    def act(world: LifecycleWorld) -> None:
        with world.loaded(topic):
            due = [one for one in world.cluster.list_of(topic).ledgers[:-1] if not one.is_offloaded and one.entries]
            if topic in world.offloading or not due:
                return
            one, uuid = due[0], str(uuid4())
            folder, node = world.cluster.bucket(), world.cluster.written[due[0].ledger_id].node
            properties = driver_properties(S3, folder, endpoint="", region="us-east-1")
            made = context(uuid, S3, properties, is_complete=False)
            world.cluster.change_ledger(topic, one.ledger_id, lambda info: replace(info, context=made))
            _remove_failed(world, topic, one)
            metadata = node.closed_at(node.last_entry, node.length)
            payloads = world.cluster.written[one.ledger_id].payloads[: node.last_entry + 1]
            try:
                write_objects(folder, S3, one.ledger_id, uuid, metadata, payloads)
            except BaseException:
                # The service that asked dies at a request of its broker's upload, which here counts as its own.
                for part in folder.glob(f".{uuid}-*.part"):
                    part.unlink()
                raise
            world.offloading[topic] = one.ledger_id, uuid

    return act


def end_offload(topic: str) -> LifecycleAct:
    """The broker that began it completes an offload, or has forgotten it: its topic was closed since."""

    def act(world: LifecycleWorld) -> None:
        if not world.broker.has(topic):
            world.offloading.pop(topic, None)
        elif topic in world.offloading:
            with world.loaded(topic):
                ledger_id, uuid = world.offloading.pop(topic)
                world.cluster.change_ledger(topic, ledger_id, lambda info: _completed(info, uuid, world.clock.now_ms()))

    return act


def delete(topic: str) -> LifecycleAct:
    def act(world: LifecycleWorld) -> None:
        with world.loaded(topic):
            world.offloading.pop(topic, None)
            for one in world.cluster.list_of(topic).ledgers:
                world.trimmed.add(one.ledger_id)
                if one.context is not None and not one.is_offloaded:
                    _remove_failed(world, topic, one)
            world.broker.delete(topic)

    return act


def make_anew(topic: str, ledgers: int) -> LifecycleAct:
    """Delete a topic, and fill some ledgers of another one of its name: the list may come to the version that the old one had."""

    def act(world: LifecycleWorld) -> None:
        delete(topic)(world)
        for _ in range(ledgers):
            world.publish(topic, 1)
            roll_over(topic)(world)
        world.publish(topic, 1)
        unload(topic)(world)

    return act


def _remove_failed(world: LifecycleWorld, topic: str, one: LedgerInfo) -> None:
    if one.context is not None and one.context.uuid is not None:
        remove_objects(world.cluster.bucket(), S3, managed_ledger_of(topic), one.ledger_id, one.context.uuid)


def _completed(info: LedgerInfo, uuid: str, now_ms: int) -> LedgerInfo:
    if info.context is None or info.context.uuid != uuid:
        return info
    return replace(info, context=replace(info.context, is_complete=True, offloaded_ms=now_ms))


def come_and_go(topic: str) -> LifecycleAct:
    """A broker loads the topic, somebody subscribes to all that is there, and it ends."""

    def act(world: LifecycleWorld) -> None:
        for one in (load(topic), subscribe(topic, "u", 0.0), publish(topic, 1), die):
            one(world)

    return act


def of_broker(random: Random) -> tuple[str, Callable[[LifecycleWorld, str], None]]:
    """Return what a broker may do to a topic at the worst time, of which the managed ledger is told then; and its name."""
    chosen: dict[str, Callable[[str], LifecycleAct]] = {
        "come and go from": come_and_go,
        "load": load,
        "take": take,
        "begin an offload of": begin_offload,
        "list a ledger of": list_ledger,
        "delete": delete,
        "make anew": lambda topic: make_anew(topic, random.randrange(8)),
        "subscribe to": lambda topic: subscribe(topic, "u", 0.0),
    }
    name = random.choice(list(chosen))
    return name, lambda world, managed_ledger: chosen[name](managed_ledger.replace("/persistent/", "/"))(world)


# All else.


def bookie(number: int) -> LifecycleAct:
    """One bookie of the four dies, or the one that is dead comes back."""

    def act(world: LifecycleWorld) -> None:
        dead = world.dead()
        if dead:
            world.cluster.bookies[dead[0]].start()
        else:
            world.cluster.bookies[number].kill()

    return act


def collect(world: LifecycleWorld) -> None:
    world.cluster.collect_all()


def wait(minutes: int) -> LifecycleAct:
    return lambda world: world.clock.pass_by(minutes * MINUTE_MS)


def keep_longer_or_not(world: LifecycleWorld) -> None:
    """An administrator keeps for ever what was kept for an hour, or the reverse."""
    world.set_retention(TIMED, -1 if world.audit.retention_ms[TIMED] >= 0 else 60 * MINUTE_MS)


def take_back(number: int) -> LifecycleAct:
    return lambda world: world.take_back(number) and None


def drawn(random: Random, topics: tuple[str, ...]) -> tuple[str, LifecycleAct]:
    """Return something that happens, and its name."""
    topic, name = random.choice(topics), random.choice(SUBSCRIPTIONS)
    weighed: dict[str, tuple[int, LifecycleAct]] = {
        "publish": (12, publish(topic, random.randint(1, 6))),
        "write": (8, write(topic, random.randint(1, 3))),
        "roll over": (6, roll_over(topic)),
        "load": (6, load(topic)),
        "take": (2, take(topic)),
        "unload": (8, unload(topic)),
        "unload all": (10, unload_all),
        "die": (8, die),
        "stop or go on": (6, stop_or_go_on),
        "subscribe": (4, subscribe(topic, random.choice(SUBSCRIPTIONS), random.choice((0.0, random.random())))),
        "read on": (6, read_on(topic)),
        "trim": (4, trim(topic, crashes=False)),
        "trim and die": (2, trim(topic, crashes=True)),
        "trim what is open and die": (4, trim(topic, crashes=True, is_open=True)),
        "delete copies": (2, delete_copies(topic, crashes=False)),
        "delete copies and die": (2, delete_copies(topic, crashes=True)),
        "make a ledger": (4, make_ledger(topic)),
        "make a ledger and stop": (3, make_ledger(topic, stops=True)),
        "list a ledger": (4, list_ledger(topic)),
        f"make a ledger for {name}": (2, make_states(topic, name)),
        f"make a ledger for {name} and stop": (2, make_states(topic, name, ends=Ending.STOP)),
        f"make a ledger for {name} and die": (2, make_states(topic, name, ends=Ending.DIE)),
        f"name a ledger for {name}": (4, name_states(topic, name)),
        "begin an offload": (4, begin_offload(topic)),
        "end an offload": (6, end_offload(topic)),
        "delete": (1, delete(topic)),
        "make anew": (1, make_anew(topic, random.randrange(8))),
        "terminate": (1, terminate(topic)),
        "bookie": (4, bookie(random.randrange(4))),
        "collect": (6, collect),
        "keep longer, or not": (2, keep_longer_or_not),
        "take back": (2, take_back(random.randrange(9))),
    }
    minutes = random.choice((2, 11, 21, 35, 90))
    weighed[f"wait for {minutes} min at"] = (12, wait(minutes))
    what = random.choices(list(weighed), [weight for weight, _ in weighed.values()])[0]
    return f"{what} {topic}", weighed[what][1]
