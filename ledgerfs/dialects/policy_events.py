"""The events of policies in ``__change_events``: the last one of each key, decoded by the schema that wrote it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ledgerfs.errors import CorruptMessageError, InvalidSchemaError, UndecodableValueError, UnknownSchemaError
from ledgerfs.formats.records import EntryBatch
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.messages.values.value_decoder import ValueDecoder, payloads_of

_COLUMNS = DecodeOptions(columns=("key", "value", "schema_version"))


class LastEvents:
    """Takes the entries of a topic in their order, and keeps the newest value of each key, as compaction does.

    Parameters
    ----------
    schemas
        Each version, as messages name it.

    """

    __slots__ = ("_decoder", "_last", "_schemas")

    def __init__(self, topic: str, schemas: Mapping[int, SchemaInfo]) -> None:
        self._decoder = TopicDecoder(topic, _COLUMNS)
        self._schemas = schemas
        self._last: dict[str, tuple[bytes, bytes]] = {}

    def take(self, ledger_id: int, batches: Iterable[EntryBatch]) -> None:
        """Take entries of a ledger; raises `CorruptMessageError` for damaged ones."""
        for batch in batches:
            entries, keep = self._decoder.walk(batch, ledger_id)
            for portion in self._decoder.portions(entries, keep):
                for row in self._decoder.decode(batch, ledger_id, entries, portion).to_pylist():
                    key = row["key"] or ""
                    self._last.pop(key, None)
                    if row["value"]:
                        self._last[key] = row["value"], row["schema_version"] or b""

    def values(self) -> dict[str, Any]:
        """Return the newest value of each key, without those that were deleted.

        Raises `UnknownSchemaError` for a value whose schema is not there, `InvalidSchemaError`, and `UndecodableValueError` for one that
        contradicts its schema.
        """
        decoders: dict[bytes, ValueDecoder] = {}
        found: dict[str, Any] = {}
        for key, (value, version) in self._last.items():
            if version not in decoders:
                decoders[version] = self._decoder_of(version, key)
            found[key] = _decoded(decoders[version], value, key)
        return found

    def _decoder_of(self, version: bytes, key: str) -> ValueDecoder:
        schema = self._schemas.get(int.from_bytes(version, "big")) if version else None
        if schema is None:
            raise UnknownSchemaError(
                f"an event is of schema version {version.hex() or 'none'}, which is not there", key=key
            )
        if schema.type != "AVRO":
            raise InvalidSchemaError(f"events of policies have a schema of type {schema.type}", key=key)
        return decoder_of(schema)


def without_ids(batch: EntryBatch) -> EntryBatch:
    """Return the entries of a compacted ledger as the topic had them: there each stands behind its id, ``int32 | id | int32 | entry``.

    Raises `CorruptMessageError` for one that is shorter than it says.
    """
    starts, sizes = batch.offsets.copy(), batch.lengths.copy()
    for row, (entry_id, entry) in enumerate(batch):
        at = 4 + int.from_bytes(entry[:4], "big") + 4
        size = int.from_bytes(entry[at - 4 : at], "big")
        if len(entry) < at or at + size > len(entry):
            raise CorruptMessageError(f"entry {entry_id} of a compacted ledger is shorter than it says")
        starts[row] += at
        sizes[row] = size
    return replace(batch, offsets=starts, lengths=sizes, is_framed=False)


def _decoded(decoder: ValueDecoder, value: bytes, key: str) -> Any:  # noqa: ANN401  (as the schema has it)
    import pyarrow as pa

    decoded, reasons = decoder.decode(*payloads_of(pa.array([value], pa.binary())))
    if reasons[0]:
        raise UndecodableValueError(
            f"an event of policies contradicts its schema: {decoder.explain(int(reasons[0]))}", key=key
        )
    return decoded[0].as_py()
