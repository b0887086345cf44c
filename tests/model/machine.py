"""The machine: steps that hypothesis chooses, done to two buckets by several actors, and what has to be true after each of them.

A step is one operation of one actor, and perhaps one of another actor in the middle of it (`tests.model.meetings`). That is how two imports
at once are played, a ledger that is deleted while it is read, a listing that is old when it is used.
"""

import shutil
import tempfile
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.model import acts, reading, schema_acts, typed_reading
from tests.model.acts import TOPICS, WHOLE, Act, Between
from tests.model.bucket_model import State, is_whole, rows_of, topics_of
from tests.model.meetings import Meeting
from tests.model.places import Place
from tests.model.world import Actor, World

_IN_MEMORY = Path("/dev/shm")
"""Where bringing a file to disk takes no time."""
_EACH = (("values", "typed"), ("schema_version", "each"), ("on_undecodable", "null"))


class TwoBuckets(RuleBasedStateMachine):
    """Several actors use two buckets; subclasses say where these are, and what they do."""

    block_size: int | None = None
    """That of ledgers that are imported, bytes; None for the default."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ledgerfs-model-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None))
        self.world = World([self.new_place(number) for number in range(2)], self.folder, self.block_size)
        self.actors = self.world.actors()
        self.looked_at = [0, 0]

    def new_place(self, number: int) -> Place:
        """Return an empty bucket."""
        raise NotImplementedError

    def teardown(self) -> None:
        # What was read is kept by a thread behind, which may still be at it.
        while self.folder.exists():
            shutil.rmtree(self.folder, ignore_errors=True)

    def do(self, who: int, act: Act, between: Between | None) -> None:
        """Let an actor do something, and another one something else meanwhile."""
        meeting = None
        if between is not None:
            other = self.actors[(who + between.step) % len(self.actors)]
            meanwhile = between.act or act
            meeting = Meeting(between.number, lambda: meanwhile(self.world, other, None))
        act(self.world, self.actors[who], meeting)

    @invariant()
    def every_row_is_there(self) -> None:
        """Somebody who comes anew finds all rows of all topics, and no others, also of both partitions as one."""
        for number, model in enumerate(self.world.models):
            if self.looked_at[number] == model.moment:
                continue
            self.looked_at[number] = model.moment
            # Lists the bucket once for all that follows, as nobody changes it meanwhile.
            comer = Actor(self.world, "witness", self.world.witness.cache, is_session=True, is_witness=True)
            assert {topic.name for topic in comer.bucket(number).topics()} >= topics_of(model.now)
            if model.now:
                for how in ("table", "merged"):
                    reading.read(self.world, comer, number, WHOLE, how=how, times=(None, None), meeting=None)
            for topic in sorted({copy.content.topic for copy in model.now.values()}):
                for times in ((None, None), *self.halves_of(model.now, topic)):
                    reading.read(self.world, comer, number, topic, how="table", times=times, meeting=None)

    @staticmethod
    def halves_of(state: State, topic: str) -> list[tuple[int | None, int | None]]:
        """Return the ranges of time of the earlier and the later half of a topic's messages."""
        times = sorted(row.time_ms for row in rows_of(state, topic))
        middle = times[len(times) // 2] if times else None
        return [(None, middle), (middle, None)] if is_whole(state, topic) else []


class NothingIsLost(TwoBuckets):
    """They import, put, copy, read, repair and delete bytes."""

    @rule(who=acts.ACTORS, act=acts.IMPORTS, between=acts.MEETINGS)
    def import_rows(self, who: int, act: Act, between: Between | None) -> None:
        self.do(who, act, between)

    @rule(who=acts.ACTORS, act=acts.PUTS, between=acts.MEETINGS)
    def put_file(self, who: int, act: Act, between: Between | None) -> None:
        self.do(who, act, between)

    @rule(who=acts.ACTORS, act=acts.SPARK_WRITES, between=acts.MEETINGS)
    def write_with_spark(self, who: int, act: Act, between: Between | None) -> None:
        self.do(who, act, between)

    @rule(who=acts.ACTORS, act=acts.REPAIRS)
    def repair(self, who: int, act: Act) -> None:
        self.do(who, act, None)

    @rule(who=acts.ACTORS, act=acts.REMOVALS, between=acts.MEETINGS)
    def remove(self, who: int, act: Act, between: Between | None) -> None:
        self.do(who, act, between)

    @rule(who=acts.ACTORS, act=acts.OFFLOADS, between=acts.MEETINGS)
    def offload(self, who: int, act: Act, between: Between | None) -> None:
        self.do(who, act, between)

    @rule(who=acts.ACTORS, act=acts.READS, between=acts.MEETINGS)
    def read(self, who: int, act: Act, between: Between | None) -> None:
        self.do(who, act, between)

    @rule(who=acts.ACTORS, act=acts.ONE_LAYOUT, between=acts.MEETINGS)
    def read_one_layout(self, who: int, act: Act, between: Between | None) -> None:
        self.do(who, act, between)

    @rule(who=acts.ACTORS, act=acts.EXPORTS, between=acts.MEETINGS)
    def export(self, who: int, act: Act, between: Between | None) -> None:
        self.do(who, act, between)

    @rule(who=acts.ACTORS, act=acts.CHECKS, between=acts.MEETINGS)
    def verify(self, who: int, act: Act, between: Between | None) -> None:
        self.do(who, act, between)

    @rule(act=acts.ARRIVALS)
    def offload_by_a_broker(self, act: Act) -> None:
        self.do(0, act, None)

    @rule(act=acts.LOSSES)
    def lose_objects(self, act: Act) -> None:
        self.do(0, act, None)

    @rule(cluster=acts.numbers, count=st.integers(1, 3), is_chunked=st.booleans(), is_mapfile=st.booleans())
    def seal(self, cluster: int, count: int, is_chunked: bool, is_mapfile: bool) -> None:
        self.world.seal(cluster, TOPICS[cluster], count, is_chunked=is_chunked, is_mapfile=is_mapfile)

    @rule(who=acts.SESSIONS, number=acts.numbers)
    def invalidate(self, who: int, number: int) -> None:
        """A session is told to list a bucket anew."""
        self.actors[who].files(number).invalidate_cache()
        self.actors[who].forget(number)


class StoreRefuses(TwoBuckets):
    """They do so while the store refuses objects and listings, of two buckets that have ledgers."""

    @initialize(is_chunked=st.booleans(), place=acts.places)
    def fill(self, is_chunked: bool, place: int) -> None:
        for number in range(2):
            for is_mapfile in (False, True):
                self.do(0, acts.Arrive(number, number, 0, False, 2, is_chunked, is_mapfile), None)
            self.do(0, acts.Import(number, 1 - number, 2, (), 1, None), None)
        for how in sorted(reading.READERS):
            read = acts.Read(0, 0, how, None, None)
            self.do(0, acts.WhileRefused(read, place, "index", 0, 1000, is_archived=False), None)

    @rule(who=acts.ACTORS, act=acts.while_refused(acts.READERS), between=acts.MEETINGS)
    def read(self, who: int, act: Act, between: Between | None) -> None:
        self.do(who, act, between)

    @rule(who=acts.ACTORS, act=acts.while_refused(acts.WRITERS), between=acts.MEETINGS)
    def write(self, who: int, act: Act, between: Between | None) -> None:
        self.do(who, act, between)

    @rule(act=acts.ARRIVALS | acts.LOSSES)
    def change(self, act: Act) -> None:
        self.do(0, act, None)


class ValuesAreTrue(TwoBuckets):
    """Clusters change schemas, people save them, import rows by them, and read values as columns."""

    def __init__(self) -> None:
        super().__init__()
        self.valued = [(0, 0), (0, 0)]
        schema_acts.begin(self.world)

    # One rule: of several hypothesis leaves out some in each example, and what goes wrong takes most of these acts.
    @rule(who=acts.ACTORS, act=schema_acts.ALL, between=schema_acts.MEETINGS)
    def act(self, who: int, act: Act, between: Between | None) -> None:
        self.do(who, act, between)

    @invariant()
    def every_value_is_true(self) -> None:
        """Somebody who comes anew finds each value as it was written, or that it cannot be decoded."""
        for number, model in enumerate(self.world.models):
            present = (model.moment, self.world.saved[number].moment)
            if model.now and self.valued[number] != present:
                self.valued[number] = present
                typed_reading.read(
                    self.world, self.world.witness, number, WHOLE, how="table", options=_EACH, meeting=None
                )
