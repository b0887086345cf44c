"""The machine whose actors have schemas: clusters change them, people save them, import rows by them, and read values as columns."""

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tests.model import acts, schema_acts, typed_reading
from tests.model.acts import TOPICS, WHOLE, Act, Between
from tests.model.machine import TwoBuckets

_EACH = (("values", "typed"), ("schema_version", "each"), ("on_undecodable", "null"))


class ValuesAreTrue(TwoBuckets):
    """Several actors use schemas and values of two buckets."""

    def __init__(self) -> None:
        super().__init__()
        self.valued = [(0, 0), (0, 0)]
        schema_acts.begin(self.world)

    # Few rules: hypothesis leaves out some in each example, and what goes wrong takes several of these acts.

    @rule(who=acts.ACTORS, act=schema_acts.OF_SCHEMAS, between=schema_acts.MEETINGS)
    def use_schemas(self, who: int, act: Act, between: Between | None) -> None:
        self.do(who, act, between)

    @rule(who=acts.ACTORS, act=schema_acts.OF_BUCKETS, between=schema_acts.MEETINGS)
    def use_bucket(self, who: int, act: Act, between: Between | None) -> None:
        self.do(who, act, between)

    @rule(cluster=acts.numbers, count=st.integers(1, 3), is_chunked=st.booleans(), is_mapfile=st.booleans())
    def seal(self, cluster: int, count: int, is_chunked: bool, is_mapfile: bool) -> None:
        self.world.seal(cluster, TOPICS[cluster], count, is_chunked=is_chunked, is_mapfile=is_mapfile)

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
