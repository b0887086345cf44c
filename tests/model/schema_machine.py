"""The machine whose actors have schemas: clusters change them, people save them, import rows by them, and read values as columns."""

from hypothesis.stateful import invariant, rule

from tests.model import acts, schema_acts, typed_reading
from tests.model.acts import WHOLE, Act, Between
from tests.model.machine import TwoBuckets

_EACH = (("values", "typed"), ("schema_version", "each"), ("on_undecodable", "null"))


class ValuesAreTrue(TwoBuckets):
    """Several actors use schemas and values of two buckets."""

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
