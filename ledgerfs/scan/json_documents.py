"""Read values that are JSON documents as columns, with or without schemas of their topic.

Their type is given, or inferred from all values of the scan before the first of them is decoded. An inferred type has all fields of these
values; a document with more fields arrived later, or was not read then, and cannot be decoded: no field is lost silently.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.values.json_shapes import JsonShapes
from ledgerfs.messages.values.json_values import JsonDecoder
from ledgerfs.messages.values.value_decoder import ValueDecoder, payloads_of
from ledgerfs.scan.options import NO_TYPE_OF_JSON, OnUndecodable, ScanOptions
from ledgerfs.scan.shown_values import Decoding, Failure, ShownValues

_OF_FIELDS = frozenset({"AVRO", "JSON"})
"""Types of schemas in Avro's notation, which contain names and types of fields."""


@dataclass(frozen=True, slots=True)
class InferredType:
    """The type of all documents that were inspected, with all their fields; scans accept it as ``schema_version``."""

    type: pa.DataType


@dataclass(frozen=True, slots=True)
class JsonDocuments:
    """Decodes all values as JSON documents. A `ValueSource`.

    Attributes
    ----------
    given
        The type to read them as: an Avro schema, an Arrow type, or the inferred type; None until it is inferred.

    """

    given: SchemaInfo | pa.DataType | InferredType | None = None
    _decoder: ValueDecoder | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_decoder", _decoder_of(self.given))

    @property
    def type(self) -> pa.DataType:
        """The type of the values; null until it is known."""
        return pa.null() if self._decoder is None else self._decoder.type

    @property
    def needed(self) -> tuple[str, ...]:
        """The column of the documents."""
        return ("value",)

    @property
    def described(self) -> Mapping[str, Any]:
        """A digest of the type."""
        reported = self.given.data.decode("utf-8", "replace") if isinstance(self.given, SchemaInfo) else str(self.given)
        return {"values": "json", "schema_version": hashlib.sha256(f"{reported}\n{self.type}".encode()).hexdigest()}

    @property
    def learned_options(self) -> Mapping[str, Any]:
        """Arguments of a scan with the inferred type."""
        return {"schema_version": self.given} if isinstance(self.given, InferredType) else {}

    @property
    def awaits_values(self) -> bool:
        """Whether the type has to be inferred first."""
        return self.given is None

    def learned(
        self, batches: Iterable[pa.RecordBatch], rows: int | None, on_undecodable: OnUndecodable
    ) -> "JsonDocuments":
        """Return the same with the type of the first documents in some batches with the column ``value``."""
        return JsonDocuments(inferred_type(batches, rows, on_undecodable))

    def decoding(self) -> Decoding:
        """Begin an iteration over batches."""
        if self._decoder is None:
            raise InvalidOptionError("the type of these documents is not inferred yet", key="values='json'")
        return _Documents(self._decoder)


@dataclass(frozen=True, slots=True)
class _Documents:
    decoder: ValueDecoder

    def __call__(self, batch: pa.RecordBatch) -> tuple[pa.Array, list[Failure]]:
        values, reasons = self.decoder.decode(*payloads_of(batch["value"]))
        codes = np.unique(reasons[reasons > 0]).tolist()
        return values, [Failure(None, self.decoder.explain(code), np.flatnonzero(reasons == code)) for code in codes]


def inferred_type(
    batches: Iterable[pa.RecordBatch], rows: int | None = None, on_undecodable: OnUndecodable = "raise"
) -> InferredType:
    """Return the type of the first ``rows`` values (all if None) of batches with the column ``value``.

    With ``on_undecodable="skip"`` values that are not JSON do not count.
    """
    shapes, left = JsonShapes(), rows
    for batch in batches:
        values, at = batch["value"], 0
        while at < len(values) and (left is None or left > 0):
            reasons = shapes.look(*payloads_of(values.slice(at, left)))
            at += reasons.size
            if left is not None:
                left -= int((reasons <= 0).sum()) if on_undecodable == "skip" else reasons.size
        if left is not None and left <= 0:
            break
    return InferredType(shapes.type)


def json_values(options: ScanOptions) -> ShownValues:
    """Return the value format of a scan of JSON documents.

    Raises `InvalidOptionError` for a schema without fields, and `InvalidSchemaError`.
    """
    return ShownValues(JsonDocuments(_given(options.schema_version)), options.flatten, options.on_undecodable)


def _given(schema: object) -> SchemaInfo | pa.DataType | InferredType | None:
    match schema:
        case "latest":
            return None
        case InferredType() | pa.DataType():
            return schema
        case pa.Schema():
            return pa.struct(list(schema))
        case SchemaInfo() if schema.type in _OF_FIELDS:
            return schema
        case dict():
            return SchemaInfo("JSON", json.dumps(schema).encode())
    raise InvalidOptionError(NO_TYPE_OF_JSON, key=f"schema_version={schema!r}"[:200])


def _decoder_of(given: SchemaInfo | pa.DataType | InferredType | None) -> ValueDecoder | None:
    match given:
        case None:
            return None
        case SchemaInfo():
            return JsonDecoder.of_schema(given.data)
        case InferredType():
            return JsonDecoder.of_type(given.type, is_closed=True)
        case _:
            return JsonDecoder.of_type(given)
