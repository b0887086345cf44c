"""The versions of a topic's schema, and which of them wrote a message.

A version number is not one schema for ever: after a forced deletion numbers begin at 0 again, and so a number may stand for several schemas,
one after the other. Which of them a message means its publish time tells: a schema is registered before the messages that name it, except
for some milliseconds where a producer has several schemas.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.schemas.schema_info import SchemaVersion, version_number

NO_VERSION = -1
"""Number of a message that names no schema: its value is bytes."""
ODD_VERSION = -2
"""Number of a message that names a schema in another way than Pulsar does."""
REGISTRATION_SLACK_MS = 10_000
"""How much later than a message its schema may have been registered, by two clocks."""


@dataclass(frozen=True, slots=True)
class TopicSchemas:
    """All versions that are known, in the order in which they were registered."""

    versions: tuple[SchemaVersion, ...] = ()

    @property
    def latest(self) -> SchemaVersion | None:
        """The last one that is no deletion."""
        return next((one for one in reversed(self.versions) if not one.is_deletion), None)

    def numbered(self, number: int) -> list[SchemaVersion]:
        """Return the schemas that had a number, in their order."""
        return [one for one in self.versions if one.version == number and not one.is_deletion]

    @property
    def digest(self) -> str:
        """Equal for equal schemas: what is made with others is something else."""
        digest = hashlib.sha256()
        for one in self.versions:
            said = (one.version, one.timestamp_ms, one.is_deletion, one.schema.type, sorted(one.schema.properties.items()))
            digest.update(repr(said).encode() + one.schema.data + b"\0")
        return digest.hexdigest()


def version_numbers(column: pa.Array) -> Int64:
    """Return the numbers of a column ``schema_version``: `NO_VERSION` and `ODD_VERSION` where there is none."""
    encoded = column.dictionary_encode()
    numbers = np.array([*map(_number, encoded.dictionary.to_pylist()), NO_VERSION], np.int64)
    places = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
    found: Int64 = numbers[places]
    return found


def _number(data: bytes) -> int:
    number = version_number(data)
    if number is None:
        return ODD_VERSION if data else NO_VERSION
    return max(number, ODD_VERSION)


def writers_of(generations: Sequence[SchemaVersion], published_ms: Int64) -> Int64:
    """Return which of the schemas of one number each message was written with, by its place among them; -1 for none.

    It is the last one that was registered before the message; one whose time nobody knows may be any.
    """
    writers = np.full(published_ms.size, -1, np.int64)
    for place, one in enumerate(generations):
        since = -(2**62) if one.timestamp_ms is None else one.timestamp_ms - REGISTRATION_SLACK_MS
        writers[published_ms >= since] = place
    return writers
