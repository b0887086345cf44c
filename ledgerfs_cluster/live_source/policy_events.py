"""The events of policies in ``__change_events``: the last ones of each topic, decoded by the schemas that wrote them.

A topic has up to two of them: its own policies, and *global* ones for all clusters. Brokers distinguish the two when they replay events,
but older ones write both with the topic as key; newer ones put `_GLOBAL_KEY` before the key of the global ones. So the newest event of a
key is not enough: it would hide the other one.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ledgerfs.errors import CorruptMessageError, InvalidSchemaError, UndecodableValueError, UnknownSchemaError
from ledgerfs.formats.records import EntryBatch
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.messages.values.value_decoder import ValueDecoder, payloads_of

_COLUMNS = DecodeOptions(columns=("key", "value", "schema_version"))
_GLOBAL_KEY = "__G__"
_Written = tuple[bytes, bytes]
"""A value, and the version of its schema."""


class LastEvents:
    """Takes the entries of a topic in order, and returns the events that brokers have after a replay.

    Parameters
    ----------
    schemas
        Each version, by its number in messages.

    """

    __slots__ = ("_decoder", "_decoders", "_schemas", "_written")

    def __init__(self, topic: str, schemas: Mapping[int, SchemaInfo]) -> None:
        self._decoder = TopicDecoder(topic, _COLUMNS)
        self._schemas = schemas
        self._decoders: dict[bytes, ValueDecoder] = {}
        # {key without its prefix: values, oldest first, or for a deletion whether its key has the prefix}
        self._written: dict[str, list[_Written | bool]] = {}

    def take(self, ledger_id: int, batches: Iterable[EntryBatch]) -> None:
        """Take entries of a ledger; raises `CorruptMessageError` for damaged ones."""
        for batch in batches:
            entries, keep = self._decoder.walk(batch, ledger_id)
            for portion in self._decoder.portions(entries, keep):
                for row in self._decoder.decode(batch, ledger_id, entries, portion).to_pylist():
                    key = row["key"] or ""
                    value: _Written | bool = key.startswith(_GLOBAL_KEY)
                    if row["value"]:
                        value = row["value"], row["schema_version"] or b""
                    self._written.setdefault(key.removeprefix(_GLOBAL_KEY), []).append(value)

    def values(self) -> list[tuple[str, Any]]:
        """Return keys, without their prefix, and events: for each key the newest local and the newest global one.

        Omits deleted ones. Raises `UnknownSchemaError` for an event without its schema, `InvalidSchemaError`, and `UndecodableValueError`
        for one that contradicts its schema.
        """
        return [(key, event) for key, written in self._written.items() for event in self._newest(key, written)]

    def _newest(self, key: str, written: list[_Written | bool]) -> Iterator[Any]:
        """Yield the valid events of a key; values older than both are not decoded, and may be damaged."""
        found: set[bool] = set()
        for one in reversed(written):
            if len(found) == 2:
                return
            if isinstance(one, bool):
                found.add(one)
                continue
            value, version = one
            if version not in self._decoders:
                self._decoders[version] = self._decoder_of(version, key)
            event = _decoded(self._decoders[version], value, key)
            if (is_global := _is_global(event)) not in found:
                found.add(is_global)
                yield event

    def _decoder_of(self, version: bytes, key: str) -> ValueDecoder:
        schema = self._schemas.get(int.from_bytes(version, "big")) if version else None
        if schema is None:
            raise UnknownSchemaError(
                f"a topic policy event has schema version {version.hex() or 'none'}, which does not exist", key=key
            )
        if schema.type != "AVRO":
            raise InvalidSchemaError(
                f"topic policy events have a schema of type {schema.type} instead of AVRO", key=key
            )
        return decoder_of(schema)


def without_ids(batch: EntryBatch) -> EntryBatch:
    """Return the entries of a compacted ledger in the topic's form: each is stored after its id, ``int32 | id | int32 | entry``.

    Raises `CorruptMessageError` for one that is shorter than its sizes.
    """
    starts, sizes = batch.offsets.copy(), batch.lengths.copy()
    for row, (entry_id, entry) in enumerate(batch):
        at = 4 + int.from_bytes(entry[:4], "big") + 4
        size = int.from_bytes(entry[at - 4 : at], "big")
        if len(entry) < at or at + size > len(entry):
            raise CorruptMessageError(f"entry {entry_id} of a compacted ledger is shorter than its size field")
        starts[row] += at
        sizes[row] = size
    return replace(batch, offsets=starts, lengths=sizes, is_framed=False)


def _is_global(event: object) -> bool:
    """Return whether an event is for all clusters; users of the events report values that are not policies."""
    for name in ("topicPoliciesEvent", "policies"):
        event = event.get(name) if isinstance(event, Mapping) else None
    return isinstance(event, Mapping) and bool(event.get("isGlobal"))


def _decoded(decoder: ValueDecoder, value: bytes, key: str) -> Any:  # noqa: ANN401  (as the schema has it)
    import pyarrow as pa

    decoded, reasons = decoder.decode(*payloads_of(pa.array([value], pa.binary())))
    if reasons[0]:
        raise UndecodableValueError(
            f"a topic policy event does not match its schema: {decoder.explain(int(reasons[0]))}", key=key
        )
    return decoded[0].as_py()
