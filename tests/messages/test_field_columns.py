"""Names of the columns that fields become: one name is one column, and leads back to its field."""

import base64
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.decode.table_schema import MESSAGE_SCHEMA
from ledgerfs.messages.encode.values.typed_rows import TypedRows
from ledgerfs.messages.text.field_columns import columns_of_fields
from ledgerfs.messages.text.json_lines import is_bytes
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.messages.values.value_decoder import payloads_of

_NAMES = st.sampled_from([
    "a", "A", "b", "b_base64", "value_b_base64", "key", "Key", "KEY", "value_key", "key_bytes", "key_bytes_base64", "value_base64", "topic",
])  # fmt: skip


_AVRO = {pa.binary(): "bytes", pa.string(): "string"}


@pytest.mark.long
@given(st.dictionaries(_NAMES, st.sampled_from([pa.binary(), pa.string()]), min_size=1))
@settings(max_examples=120, deadline=None)
def test_names_are_unique_in_every_format_and_lead_back(fields: dict[str, pa.DataType]) -> None:
    beside = [one for one in MESSAGE_SCHEMA if one.name != "value"]
    columns = columns_of_fields(pa.struct(list(fields.items())), beside)
    shown = [f"{name}_base64" if is_bytes(kind) else name for name, kind in zip(columns, fields.values(), strict=True)]
    of_messages = [f"{one.name}_base64" if is_bytes(one.type) else one.name for one in beside]
    for names in (columns + [one.name for one in beside], shown + of_messages):
        assert len(set(names)) == len(names)
    assert not {name.lower() for name in columns} & {one.name for one in beside}
    # Files of both kinds lead back to the fields.
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": one, "type": _AVRO[kind]} for one, kind in fields.items()],
    }
    wanted = {name: name.encode() if is_bytes(kind) else name for name, kind in fields.items()}
    of_arrow = dict(zip(columns, ([one] for one in wanted.values()), strict=True))
    of_texts = dict(
        zip(shown, ([_base64(one) if isinstance(one, bytes) else one] for one in wanted.values()), strict=True)
    )
    for table in (pa.table({"key": ["k"], **of_arrow}), pa.table({"key_bytes": [b"k"], **of_texts})):
        beside = [one for one in MESSAGE_SCHEMA if one.name != "value"]
        rows = TypedRows.of(
            table.schema, SchemaInfo("AVRO", json.dumps(schema).encode()), 0, [one.name for one in beside]
        )
        (batch,) = rows.all_messages(table.to_batches())
        values, _ = decoder_of(SchemaInfo("AVRO", json.dumps(schema).encode())).decode(
            *payloads_of(batch["value"].cast(pa.binary()))
        )
        assert values.to_pylist() == [wanted]


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def test_other_fields_keep_their_names() -> None:
    kind = pa.struct([("a", pa.string()), ("A", pa.int64()), ("b_base64", pa.binary()), ("Key", pa.string())])
    assert columns_of_fields(kind, []) == ["a", "A", "b_base64", "Key"]
    assert columns_of_fields(kind, [MESSAGE_SCHEMA.field("key")]) == ["a", "A", "b_base64", "value_Key"]
