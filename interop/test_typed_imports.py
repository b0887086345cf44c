"""Rows that ledgerfs wrote by a schema, which a real broker has: Pulsar's own reader decodes their values."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

from interop.cluster import Cluster
from interop.java_client import JavaClient, Lines
from interop.managed_ledgers import introduce
from interop.processes import Processes
from interop.s3_server import BUCKET, S3Server
from interop.stages import stage
from ledgerfs import import_rows, open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.schemas.saved_schemas import SavedSchemas
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.pulsar_admin.saving import save_schemas
from ledgerfs_cluster.pulsar_admin.schemas import AdminApi

NAMESPACE = "public/typed-imports"
ORDER = {
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": "long"}, {"name": "customer", "type": ["null", "string"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
        {"name": "weight", "type": "float"}, {"name": "amount", "type": "double"}, {"name": "paid", "type": "boolean"},
        {"name": "small", "type": "int"}, {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "string"}, {"name": "count", "type": ["null", "int"], "default": None}]}}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}  # fmt: skip
ROWS = [
    {
        "id": number * 7919 - 2**40, "customer": None if number % 3 else f"é {number}", "state": ("OPEN", "PAID")[number % 2],
        "weight": number / 4, "amount": -number / 8, "paid": number % 5 == 0, "small": -number,
        "tags": [] if number % 4 else [("k", "v"), ("ü", str(number))],
        "lines": [{"sku": f"s{one}", "count": one or None} for one in range(number % 4)], "at": 1_700_000_000_000 + number,
    }
    for number in range(500)
]  # fmt: skip
UNION = ["null", "string", "double", {"type": "array", "items": "long"}]


@dataclass(frozen=True)
class Written:
    """A topic: its schema in the broker, and the rows."""

    name: str
    kind: str
    schema: Any
    values: pa.Array

    @property
    def topic(self) -> str:
        """Its name in the broker, and in the bucket."""
        return f"persistent://{NAMESPACE}/{self.name}"


def order_type() -> pa.DataType:
    line = pa.struct([("sku", pa.string()), ("count", pa.int32())])
    return pa.struct(
        [
            ("id", pa.int64()), ("customer", pa.string()), ("state", pa.string()), ("weight", pa.float64()), ("amount", pa.float64()),
            ("paid", pa.bool_()), ("small", pa.int64()), ("tags", pa.map_(pa.string(), pa.string())), ("lines", pa.list_(line)),
            ("at", pa.timestamp("ms", "UTC")),
        ]
    )  # fmt: skip


UNIONS = pa.struct([("string", pa.string()), ("double", pa.float64()), ("array", pa.list_(pa.int64()))])
TOPICS = [
    Written("avro", "AVRO", ORDER, pa.array([*ROWS, None], order_type())),
    Written("json", "JSON", ORDER, pa.array([*ROWS, None], order_type())),
    Written("union", "AVRO", {"type": "record", "name": "U", "fields": [{"name": "u", "type": UNION}]}, pa.array(
        [{"u": one} for one in (None, {"string": "x"}, {"double": 0.5}, {"array": [1, -1]})], pa.struct([("u", UNIONS)]))),
    Written("long", "INT64", None, pa.array([0, -1, 2**63 - 1, None])),
    Written("small", "INT8", None, pa.array([0, -128, 127])),
    Written("real", "DOUBLE", None, pa.array([0.5, -1e300, None])),
    Written("text", "STRING", None, pa.array(["", "é", None])),
    Written("local", "LOCAL_DATE", None, pa.array([0, -1, 20_000], pa.int32()).cast(pa.date32())),
    Written("instant", "INSTANT", None, pa.array([0, -1_000_000, 10**18], pa.int64()).cast(pa.timestamp("ns", "UTC"))),
]  # fmt: skip


@pytest.fixture(scope="module")
def server(folder: Path, processes: Processes, cluster: Cluster) -> Iterator[S3Server]:
    """A server with these ledgers only."""
    made = S3Server("s3-typed", folder / "s3-typed", processes).start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def bucket(server: S3Server, cluster: Cluster) -> Bucket:
    """The bucket, with the broker's schemas, of which ours are the second; so the import looks for the number itself."""
    cluster.admin.make_namespace(NAMESPACE)
    cluster.admin.call("PUT", f"v2/namespaces/{NAMESPACE}/schemaCompatibilityStrategy", "ALWAYS_COMPATIBLE")
    for one in TOPICS:
        for kind, schema in (("BOOLEAN", ""), (one.kind, json.dumps(one.schema) if one.schema else "")):
            body = {"type": kind, "schema": schema, "properties": {}}
            name = quote(quote(one.name, safe=""), safe="")
            cluster.admin.call("POST", f"v2/schemas/{NAMESPACE}/{name}/schema", body)
    opened = open_bucket(f"s3://{BUCKET}", storage_options=server.options)
    api = AdminApi(AdminRequests(cluster.admin.address))
    done = save_schemas(api, SavedSchemas(opened.raw_store), [one.topic for one in TOPICS])
    assert [(one.error, one.new) for one in done] == [(None, 2)] * len(TOPICS)
    first = max(cluster.bookkeeper_ledgers()) + 2000
    with stage("ledgerfs import by schema"):
        for number, one in enumerate(TOPICS):
            rows = pa.table({"value": one.values, "key": [f"k{row}" for row in range(len(one.values))]})
            kind = one.kind if one.schema is None else one.kind.lower()
            import_rows(
                opened, rows, one.topic, ledger_id=first + number, batch=100, schema=one.schema, schema_type=kind
            )
    opened.refresh()
    return opened


@pytest.fixture(scope="module")
def theirs(bucket: Bucket, server: S3Server, cluster: Cluster, java: JavaClient) -> Lines:
    """What Pulsar's reader decodes."""
    introduce(
        cluster.zookeeper,
        {one.topic: [ledger.ref for ledger in bucket.topic(one.topic).ledgers] for one in TOPICS},
        server,
    )
    with stage("restart the broker"):
        cluster.restart_broker(server)
    with stage("Pulsar's reader"):
        return java.read_typed([one.topic for one in TOPICS])


@pytest.mark.parametrize("one", TOPICS, ids=lambda one: one.name)
def test_pulsars_reader_decodes_what_was_written(one: Written, bucket: Bucket, theirs: Lines) -> None:
    lines = theirs[one.topic]
    assert [line["key"] for line in lines] == [f"k{row}" for row in range(len(one.values))]
    assert {base64.b64decode(line["schema_version"]) for line in lines} == {(1).to_bytes(8, "big")}
    assert {line["type"] for line in lines} - {None} == {one.kind}
    assert [line["value"] is None for line in lines] == [value is None for value in one.values.to_pylist()]
    found = [_parsed(one.kind, line["value"]) for line in lines]
    assert found == [_expected(one, value) for value in one.values.to_pylist()]
    ours = bucket.topic(one.topic).scan(["value"], values="typed").to_arrow()["value"].to_pylist()
    assert [_expected(one, value) for value in ours] == found


def _parsed(kind: str, text: str | None) -> Any:
    """Return a value that Java shows as JSON, or as the text of a number or a time."""
    return text if text is None or kind in {"STRING", "LOCAL_DATE", "INSTANT"} else json.loads(text)


def _expected(one: Written, value: Any) -> Any:
    """Return a value as Java shows it."""
    if one.kind == "LOCAL_DATE":
        return str(value)
    if one.kind == "INSTANT":
        text = value.isoformat().replace("+00:00", "Z")
        return text.replace("000Z", "Z") if "." in text else text
    if value is None or not isinstance(value, dict):
        return value
    if one.name == "union":
        chosen = value["u"]
        return {"u": None if chosen is None else next(one for one in chosen.values() if one is not None)}
    shown = {**value, "tags": dict(value["tags"]), "at": round(value["at"].timestamp() * 1000)}
    if one.kind == "JSON":  # which leaves out nulls
        shown["lines"] = [{name: part for name, part in line.items() if part is not None} for line in value["lines"]]
        return {name: part for name, part in shown.items() if part is not None}
    return shown
