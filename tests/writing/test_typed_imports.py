"""Rows that are written by a schema: which number they name, that they are read again by it, and who else may save schemas meanwhile."""

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import (
    InvalidOptionError,
    InvalidRowsError,
    InvalidSchemaError,
    LedgerfsError,
    NamedSchemasWarning,
    RefusedLedgerError,
    SchemaConflictError,
    UndecodableValueError,
)
from ledgerfs.export.export import export_topic
from ledgerfs.formats.schemas.schema_info import ANY_VERSION, BY_HAND, BY_IMPORT, SchemaInfo, SchemaVersion
from ledgerfs.schemas.saved_schemas import SavedSchemas
from ledgerfs.spark.source.spark_types import SparkColumns, Unheld
from ledgerfs.writing.imports import import_rows
from tests.support.ledgers import offload, put_in_folder
from tests.support.typed_golden import bucket_with_schemas
from tests.support.writes import Place, folder_place, s3_place

ORDERS = "public/default/orders"


def schema_of(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


OURS, THEIRS = schema_of(a="long", b=["null", "string"]), schema_of(b=["null", "string"], a="long")
ROWS: list[dict[str, Any]] = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "file":
        return folder_place(tmp_path / "bucket")
    return s3_place(request.getfixturevalue("s3"), request.getfixturevalue("s3_bucket"))


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return opened(folder_place(tmp_path / "bucket"))


def opened(place: Place) -> Bucket:
    return open_bucket(place.url, place.options)


def read(bucket: Bucket, topic: str = ORDERS, **options: Any) -> list[Any]:
    bucket.refresh()
    found: list[Any] = bucket.topic(topic).scan(["value"], values="typed", **options).to_arrow()["value"].to_pylist()
    return found


@dataclass
class Meeting:
    """Rows, during whose writing something happens."""

    happens: Callable[[], object]
    schema: pa.Schema = field(default_factory=lambda: pa.Table.from_pylist(ROWS).schema)
    rows: int | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from pa.Table.from_pylist(ROWS).to_batches()
        self.happens()


def test_what_is_written_is_read_again(place: Place) -> None:
    bucket = opened(place)
    table = pa.table({"value": pa.array([*ROWS, None]), "key": ["k", None, "t"], "schema_version": [b"old"] * 3})
    done = import_rows(bucket, table, ORDERS, schema=OURS)
    assert done.ignored_columns == ("schema_version",)
    assert read(bucket) == [*ROWS, None]
    (version,) = bucket.topic(ORDERS).schema_versions()
    assert (version.version, version.schema.type, json.loads(version.schema.data)) == (0, "AVRO", OURS)
    found = bucket.topic(ORDERS).scan(["schema_version", "key"]).to_arrow()
    assert found["schema_version"].to_pylist() == [bytes(8)] * 3
    # The flat form is what a flat scan gives.
    bucket.refresh()
    flat = bucket.topic(ORDERS).scan(values="typed", flatten=True).to_arrow().slice(0, 2)
    import_rows(bucket, flat, ORDERS, schema=json.loads(json.dumps(OURS, indent=3)))
    assert read(bucket) == [*ROWS, None, *ROWS]
    assert len(bucket.topic(ORDERS).schema_versions()) == 1


@pytest.fixture(scope="module")
def golden(golden_typed: Path, tmp_path_factory: pytest.TempPathFactory) -> Bucket:
    return bucket_with_schemas(golden_typed, tmp_path_factory.mktemp("golden") / "bucket")


@pytest.mark.parametrize("name", ["avro-logical", "avro-times", "prim-time", "prim-local-time", "prim-instant"])
def test_what_spark_has_as_text_is_written_again_by_the_same_schema(bucket: Bucket, golden: Bucket, name: str) -> None:
    topic = golden.topic(f"public/typed/{name}")
    version = topic.schema_versions()[-1]
    table = topic.scan(["value"], values="typed", schema_version=version.version).to_arrow().combine_chunks()
    columns = SparkColumns.of(table.schema)
    rows = pa.Table.from_batches([columns.of_batch(one, Unheld("t")) for one in table.to_batches()], columns.schema)
    assert "string" in str(columns.schema.field("value").type)
    import_rows(bucket, rows, ORDERS, schema=version.schema)
    bucket.refresh()
    found = bucket.topic(ORDERS).scan(["value"], values="typed").to_arrow()
    assert found["value"].combine_chunks().equals(table["value"].combine_chunks())


PRIMITIVES = (
    "boolean", "int8", "int16", "int32", "int64", "float", "double", "string", "date", "time", "timestamp", "instant", "local-date",
    "local-time", "local-date-time",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
@pytest.mark.parametrize("name", PRIMITIVES)
def test_what_an_export_has_as_text_comes_back_by_its_own_type(
    golden: Bucket, tmp_path: Path, name: str, kind: str
) -> None:
    bucket = opened(folder_place(tmp_path / "bucket"))
    topic = golden.topic(f"public/typed/prim-{name}")
    export_topic(topic, tmp_path / "out", kind, columns=["value", "entry_id"], values="typed")
    done = import_rows(bucket, tmp_path / "out", ORDERS, schema_type=name.replace("-", "_"))
    wanted = topic.scan(["value"], values="typed").to_arrow()["value"].combine_chunks()
    bucket.refresh()
    found = bucket.topic(ORDERS).scan(["value"], values="typed").to_arrow()["value"].combine_chunks()
    assert done.messages == len(wanted) > wanted.null_count
    assert str(found) == str(wanted)


def test_values_of_json_lines(bucket: Bucket, tmp_path: Path) -> None:
    file, large = tmp_path / "x.jsonl", 2**53 + 1
    for kind, text, wanted in (
        ("int64", '{"key":"k","value":"5"}\n{"value":null}\n{"key":"k","value":7}', [5, None, 7]),
        ("int64", f'{{"value":{large}.0}}\n{{"value":1e3,"properties":{{"a":"b"}}}}', [large, 1000]),
        ("double", '{"value":0.1}\n{"value":"-Infinity"}\n{"value":2}', [0.1, float("-inf"), 2.0]),
        ("boolean", '{"value":true}\n{"value":"false"}', [True, False]),
        ("string", '{"value":"5"}\n{"value_base64":"YQ=="}', ["5", "a"]),
    ):
        file.write_text(text + "\n")
        import_rows(bucket, file, topic := f"public/default/{kind}", ledger_id=len(text), schema_type=kind)
        assert read(bucket, topic)[-len(wanted) :] == wanted
    for kind, value, reason in (
        ("int64", '"value":1.5', "not a value of int64: '1.5'"),
        (
            "int64",
            '"value_base64":"AAAAAAAAAAU="',
            "line 2: value_base64 is for bytes, but values of this schema are not bytes",
        ),
        ("int64", '"value":true', "not a value of int64: 'true'"),
        ("double", '"value":1e400', "outside the range"),
        ("double", f'"value":1e{"9" * 30}', "line 2: a number is too large"),
        ("string", '"value":5', "line 2: value: "),
    ):
        file.write_text(f'{{"value":null}}\n{{{value}}}\n')
        with pytest.raises(InvalidRowsError, match=reason):
            import_rows(bucket, file, "public/default/bad", schema_type=kind)


def test_what_json_lines_cannot_have_is_reported_by_the_file(bucket: Bucket, tmp_path: Path) -> None:
    file, header = tmp_path / "x.jsonl", tmp_path / "x.csv"
    file.write_text('{"a":1,"key":"k"}\n')
    header.write_text("value\n")
    with pytest.raises(
        InvalidRowsError, match=r"x\.jsonl: JSON lines support neither columns of fields.* Parquet or Arrow.* CSV"
    ):
        import_rows(bucket, file, ORDERS, schema=OURS)
    for options in ({}, {"schema_type": "int64"}):
        with pytest.raises(RefusedLedgerError, match=r"x\.csv: the files contain no rows"):
            import_rows(bucket, header, ORDERS, **options)  # type: ignore[arg-type]
    assert list(bucket.raw_store.list_pages()) in ([], [[]])


def test_json_and_primitives(bucket: Bucket) -> None:
    import_rows(bucket, pa.Table.from_pylist(ROWS), "public/default/json", schema=OURS, schema_type="json")
    assert read(bucket, "public/default/json") == ROWS
    assert bucket.topic("public/default/json").scan(["value"]).to_arrow()["value"].to_pylist()[0] == b'{"a":1,"b":"x"}'
    import_rows(bucket, pa.table({"value": [1, None]}), "public/default/n", schema_type="int64", schema_version=3)
    assert read(bucket, "public/default/n") == [1, None]
    import_rows(bucket, pa.table({"value": [5]}), "public/default/n", schema=SchemaInfo("INT64"))
    assert [one.version for one in bucket.topic("public/default/n").schema_versions()] == [3]


def save(
    bucket: Bucket,
    number: int,
    schema: Any,
    registered_ms: int | None = None,
    source: str = "http://a",
    topic: str = ORDERS,
    saved_ms: int = 1,
) -> None:
    """Save a schema, or that it was deleted or taken back (None)."""
    info = SchemaInfo("NONE") if schema is None else SchemaInfo("AVRO", json.dumps(schema).encode())
    version = SchemaVersion(number, info, registered_ms, schema is None, source, saved_ms)
    SavedSchemas(bucket.raw_store).add(topic, [version])


def take_back(bucket: Bucket, number: int = 0) -> None:
    save(bucket, number, None, source=BY_HAND, saved_ms=2)


def test_the_number_is_that_of_the_equal_schema(bucket: Bucket) -> None:
    save(bucket, 4, THEIRS, 1000)
    save(bucket, 5, OURS, 2000)
    import_rows(bucket, pa.Table.from_pylist(ROWS), ORDERS, schema=OURS)
    assert bucket.topic(ORDERS).scan(["schema_version"]).to_arrow()["schema_version"][0].as_py()[-1] == 5
    assert read(bucket) == ROWS
    with pytest.raises(InvalidOptionError, match=r"is required \(--schema-version\): the saved schemas"):
        import_rows(bucket, pa.table({"value": [1]}), ORDERS, schema_type="int64")
    with pytest.raises(SchemaConflictError, match="schema version 4 is another schema, of type AVRO"):
        import_rows(bucket, pa.Table.from_pylist(ROWS), ORDERS, schema=OURS, schema_version=4)
    import_rows(
        bucket, pa.table({"a": [1], "b": ["z"]}), ORDERS, schema=schema_of(a="int", b="string"), schema_version=6
    )
    assert read(bucket, schema_version=5) == [*ROWS, {"a": 1, "b": "z"}]


def test_rows_stay_what_they_are_when_the_schema_by_hand_is_taken_back(bucket: Bucket) -> None:
    save(bucket, 0, OURS, source=BY_HAND)
    import_rows(bucket, pa.Table.from_pylist(ROWS), ORDERS, schema=OURS)
    take_back(bucket)
    assert read(bucket) == ROWS
    assert [(one.version, one.source) for one in bucket.topic(ORDERS).schema_versions()] == [(0, BY_IMPORT)]
    save(bucket, 0, THEIRS, 1000)
    with pytest.raises(UndecodableValueError, match="is ambiguous"):
        read(bucket)


def test_a_topic_whose_schemas_nobody_saved_needs_the_number(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    put_in_folder(tmp_path / "b", offload([b"x"]))
    bucket = open_bucket(str(tmp_path / "b"))
    (topic,) = bucket.topics()
    with pytest.raises(InvalidOptionError, match="no version of this topic's schema is saved, but it has ledgers"):
        import_rows(bucket, pa.Table.from_pylist(ROWS), topic.name, schema=OURS)
    assert bucket.schemas_of(topic.name).versions == ()
    # One for any version tells no number.
    save(bucket, ANY_VERSION, OURS, source=BY_HAND, topic=topic.name)
    with pytest.raises(InvalidOptionError, match="no version of this topic's schema is saved, but it has ledgers"):
        import_rows(bucket, pa.Table.from_pylist(ROWS), topic.name, schema=OURS)
    assert (
        import_rows(bucket, pa.Table.from_pylist(ROWS), topic.name, schema=OURS, schema_version=7).schema_version == 7
    )


def test_what_fails_writes_nothing(bucket: Bucket) -> None:
    failing: list[tuple[type[LedgerfsError], dict[str, Any]]] = [
        (InvalidRowsError, {"schema": schema_of(a="long", b="string")}),
        (InvalidRowsError, {"schema": schema_of(a="long")}),
        (InvalidSchemaError, {"schema": {"type": "nothing"}}),
        (InvalidOptionError, {"schema_version": 1}),
        (InvalidOptionError, {"schema": OURS, "schema_type": "int64"}),
        (InvalidOptionError, {"schema": SchemaInfo("INT64"), "schema_type": "string"}),
        (InvalidOptionError, {"schema": "/there/is/none.avsc"}),
        (InvalidOptionError, {"schema": OURS, "schema_version": -1}),
        (InvalidOptionError, {"schema": OURS, "schema_version": "1"}),
        (InvalidOptionError, {"schema": OURS, "schema_version": True}),
        (InvalidOptionError, {"schema": ["null", "string"]}),
    ]
    for kind, options in failing:
        with pytest.raises(kind):
            import_rows(bucket, pa.Table.from_pylist(ROWS), ORDERS, **options)
        assert list(bucket.raw_store.list_pages()) in ([], [[]])


def test_of_two_that_save_at_once_one_defines_the_number(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rival saves between our last look and our own object."""
    put, rivals = (
        SavedSchemas._put,
        [lambda: import_rows(opened(place), pa.Table.from_pylist(ROWS), ORDERS, schema=THEIRS)],
    )

    def after_the_rival(self: SavedSchemas, key: str, data: bytes) -> None:
        while rivals:
            rivals.pop()()
        put(self, key, data)

    monkeypatch.setattr(SavedSchemas, "_put", after_the_rival)
    with pytest.raises(SchemaConflictError, match="schema version 0 is another schema"):
        import_rows(opened(place), pa.Table.from_pylist(ROWS), ORDERS, schema=OURS)
    bucket = opened(place)
    assert read(bucket) == [{"b": one["b"], "a": one["a"]} for one in ROWS]
    assert len(bucket.schemas_of(ORDERS).versions) == 1


@pytest.mark.parametrize("source", ["http://a", BY_HAND])
def test_a_schema_that_is_saved_meanwhile(bucket: Bucket, source: str) -> None:
    with pytest.raises(SchemaConflictError, match="schema version 0 is another schema"):
        import_rows(bucket, Meeting(lambda: save(bucket, 0, THEIRS, 1000, source)), ORDERS, schema=OURS)
    assert not bucket.refresh().topics()


def test_rows_that_bring_the_number_of_another_schema_are_reported_of(bucket: Bucket, tmp_path: Path) -> None:
    """A column ``schema_version`` is the number that it is in the rows' own topic: in another one it may mean another schema."""
    import_rows(
        bucket, pa.table({"price": pa.array([2.5], pa.float32())}), "public/x/prices", schema=schema_of(price="float")
    )
    import_rows(
        bucket,
        pa.table({name: [1] for name in "xyzw"}),
        "public/x/ints",
        schema=schema_of(x="int", y="int", z="int", w="int"),
    )
    bucket.refresh()
    prices = bucket.topic("public/x/prices").scan().to_arrow()
    with pytest.warns(
        NamedSchemasWarning, match=r"contain schema versions \(0\) that persistent://public/x/ints has too"
    ):
        import_rows(bucket, prices, "public/x/ints")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        import_rows(bucket, prices, "public/x/others")
        import_rows(bucket, prices.drop_columns(["schema_version"]), "public/x/ints")
    SavedSchemas(bucket.raw_store).add(
        "persistent://public/x/others", [SchemaVersion(ANY_VERSION, SchemaInfo("INT32"), source=BY_HAND, saved_ms=1)]
    )
    with pytest.warns(NamedSchemasWarning, match="public/x/others has too"):
        import_rows(bucket, prices, "public/x/others")


UNSURE: dict[str, tuple[list[tuple[Any, ...]], dict[str, Any], type[LedgerfsError], str]] = {
    "a deletion hides it": ([(0, OURS, 1000), (1, None, 2000)], {}, InvalidOptionError, "is required"),
    "none, before a deletion": ([(1, None, 2000)], {"schema_version": 0}, SchemaConflictError, "0 is unknown"),
    "of the deletion": ([(1, None, 2000)], {"schema_version": 1}, SchemaConflictError, "1 is unknown"),
    "by hand over that of other rows": (
        [(0, THEIRS, None, BY_IMPORT), (0, OURS, None, BY_HAND)], {}, SchemaConflictError, "by hand overrides it, but may be removed again",
    ),
    "by hand as of a time": ([(0, OURS, 1000, BY_HAND)], {}, SchemaConflictError, "by hand only from a certain time on"),
    "registered later": ([(0, OURS, 1_800_000_000_000)], {}, InvalidRowsError, "an older schema with this number"),
}  # fmt: skip
"""What is saved (number, schema, time, source), the options of an import, and how it is refused; `tests/model` tries all of it."""


def test_numbers_that_may_mean_another_schema_to_readers_are_refused(bucket: Bucket) -> None:
    rows = pa.Table.from_pylist([{**one, "publish_time": 1_700_000_000_000} for one in ROWS])
    for number, (what, (saved, options, error, reported)) in enumerate(UNSURE.items()):
        for one in saved:
            save(bucket, *one, topic=f"{ORDERS}{number}")
        with pytest.raises(error, match=reported):
            import_rows(bucket, rows, f"{ORDERS}{number}", schema=OURS, **options)
        assert not bucket.refresh().topics(), what
