"""Decode values of a followed topic as columns: their type stays, but schemas that are registered meanwhile are loaded.

A schema is registered before messages use it. So the schemas are loaded again whenever a message uses a version for the first time, and
never otherwise.
"""

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from ledgerfs.formats.array_types import Mask
from ledgerfs.formats.schemas.schema_versions import TopicSchemas
from ledgerfs.messages.decode.undecodable import Undecodable
from ledgerfs.scan.shown_values import ShownValues
from ledgerfs.scan.typed_values import TypedValues
from ledgerfs.scan.value_reading import ValueReading

_NAMED = "schema_version"


class FollowedValues:
    """Decodes values, batch by batch.

    Parameters
    ----------
    shown
        The value format.
    undecodable
        Values that could not be decoded; this adds to it.
    schemas
        Returns the present schemas of the topic.

    """

    __slots__ = ("_named", "_reading", "_schemas", "_shown", "_undecodable")

    def __init__(self, shown: ShownValues, undecodable: list[Undecodable], schemas: Callable[[], TopicSchemas]) -> None:
        self._shown = shown
        self._undecodable = undecodable
        self._schemas = schemas
        self._named: set[bytes | None] = {None}
        self._reading = ValueReading(shown, undecodable)

    def __call__(self, batch: pa.RecordBatch) -> tuple[pa.Array, Mask | None]:
        """Return the result of `ValueReading`; raises its errors, and those of loading schemas."""
        source = self._shown.source
        # With "each", values have a column per version that existed at the time of the call.
        if isinstance(source, TypedValues) and source.wanted is not None and _NAMED in batch.schema.names:
            named = set(batch[_NAMED].unique().to_pylist())
            if not named <= self._named:
                self._learn(source)
                self._named |= named
        return self._reading(batch)

    def _learn(self, source: TypedValues) -> None:
        learned = replace(source, schemas=self._schemas())
        # Values that need other columns cannot be decoded; they are reported as those of an unknown schema.
        if set(learned.needed) <= set(source.needed):
            self._reading = ValueReading(replace(self._shown, source=learned), self._undecodable)
