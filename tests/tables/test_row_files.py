"""Files of rows: what an export wrote comes back as the same messages, in every format."""

import os
import tempfile
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet
import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import InvalidRowsError, LedgerfsError, NotFoundError
from ledgerfs.export.export import export_topic
from ledgerfs.messages.decode.table_schema import MESSAGE_SCHEMA
from ledgerfs.messages.encode.input_columns import IGNORED_COLUMNS, INPUT_COLUMNS
from ledgerfs.messages.encode.rows import EncodeOptions, MessageEncoder
from ledgerfs.tables import json_rows, row_files
from ledgerfs.tables.row_files import RowFile, open_rows
from tests.messages.test_encode import decoded
from tests.support.each import for_each
from tests.support.s3 import S3Server

COLUMNS = tuple(INPUT_COLUMNS)
KINDS = ("parquet", "arrow", "jsonl", "csv")


def imported(rows: RowFile, **options: Any) -> list[dict[str, Any]]:
    encoder = MessageEncoder(rows.schema, EncodeOptions(publish_time_ms=0, **options))
    made = [one for batch in rows.batches() for one in encoder.encode(batch)]
    return decoded([*made, *encoder.finish()], COLUMNS)


def messages(bucket: Bucket, name: str) -> list[dict[str, Any]]:
    table = bucket.topic(name).scan(columns=COLUMNS).to_arrow()
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.int64()))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


@pytest.mark.parametrize("kind", KINDS)
@for_each("topic", ["plain", "batched-lz4", "batched-by-key", "kv-separated-batched", "chunked", "txn"])
def test_an_export_imports_as_it_was(bucket: Bucket, tmp_path: Path, kind: str, topic: str) -> None:
    name = f"public/golden/{topic}"
    folder = tmp_path / topic
    export_topic(bucket.topic(name), folder, kind, columns=MESSAGE_SCHEMA.names)
    rows = open_rows(str(folder))
    wanted = messages(bucket, name)
    assert [Path(path).suffix for path in rows.paths] == [f".{kind}"] * len(rows.paths)
    assert [int(Path(path).stem) for path in rows.paths] == sorted(int(Path(path).stem) for path in rows.paths)
    assert rows.rows in {None, len(wanted)}
    assert (rows.rows is None) == (kind != "parquet")
    assert rows.ignored_columns == (
        () if kind == "jsonl" else tuple(n for n in MESSAGE_SCHEMA.names if n in IGNORED_COLUMNS)
    )
    for options in ({"batch": 1}, {"batch": 10, "compression": "zstd"}):
        assert imported(rows, **options) == wanted


def test_paths(tmp_path: Path) -> None:
    table = {name: pa.table({"value": [name]}) for name in ("10", "9", "b", "_c", ".d")}
    for name, rows in table.items():
        pa.parquet.write_table(rows, tmp_path / f"{name}.parquet")
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "11.parquet").write_text("not whole")

    def found(path: str) -> list[str]:
        return [row["value"] for batch in open_rows(path).batches() for row in batch.to_pylist()]

    assert found(str(tmp_path)) == found(f"file://{tmp_path}") == ["9", "10", "b"]
    assert found(f"{tmp_path}/*.parquet") == ["9", "10", "b"]
    assert found(f"{tmp_path}/1?.parquet") == ["10"]
    (tmp_path / "sub").mkdir()
    (tmp_path / "9.parquet").rename(tmp_path / "sub" / "9.parquet")
    (tmp_path / "9.parquet").symlink_to("sub/9.parquet")
    (tmp_path / "notes.txt").write_text("")
    assert found(f"{tmp_path}/*.parquet") == ["9", "10", "b"]
    assert found(f"{tmp_path}/**/*.parquet") == ["9", "9", "10", "b"]
    assert found(f"{tmp_path}/*/*.parquet") == ["9"]
    assert open_rows(str(tmp_path / "9.parquet")).rows == 1


@for_each("pattern", ["", "/*", "/[!.]*"])
@for_each(
    ("name", "text"),
    [
        ("sub", "the path is a folder; select the files in it with a pattern"),
        ("sub.jsonl", "the path is a folder"),
        ("link", "the path is a folder"),
        ("gone.jsonl", "not a file, nor a link to one"),
        ("fifo.jsonl", "not a file, nor a link to one"),
        ("a.jsonl.gz", "unknown type of file"),
        ("notes.txt", "unknown type of file"),
    ],
)
def test_nothing_is_left_out(tmp_path: Path, name: str, text: str, pattern: str) -> None:
    within = Path(tempfile.mkdtemp(dir=tmp_path))
    folder, elsewhere = within / "rows", within / "elsewhere"
    elsewhere.mkdir()
    folder.mkdir()
    (folder / "z.jsonl").write_text('{"value":"z"}\n')
    (folder / "_SUCCESS").touch()
    assert len(open_rows(f"{folder}{pattern}").paths) == 1
    path = folder / name
    match name.partition(".")[0]:
        case "sub":
            path.mkdir()
            (path / "b.jsonl").write_text('{"value":"b"}\n')
        case "link":
            path.symlink_to(elsewhere)
        case "gone":
            path.symlink_to(elsewhere / "nothing")
        case "fifo":
            os.mkfifo(path)
        case _:
            path.write_text('{"value":"b"}\n')
    with pytest.raises(InvalidRowsError, match=text) as caught:
        open_rows(f"{folder}{pattern}")
    assert caught.value.key == str(path)


def test_folders_in_folders_of_another_filesystem() -> None:
    fs = fsspec.filesystem("memory")
    fs.pipe({"/marked/a.jsonl": b'{"value":"a"}', "/marked/sub/b.jsonl": b'{"value":"b"}'})
    try:
        assert len(open_rows("memory://marked/**").paths) == 2
        with pytest.raises(
            InvalidRowsError, match=r"marked/sub: the path is a folder.* such as 'memory://marked/\*\*/\*.parquet'"
        ):
            open_rows("memory://marked/")
    finally:
        fs.rm("/marked", recursive=True)


def test_a_marker_of_a_folder_is_no_file(s3: S3Server, s3_bucket: str) -> None:
    for key, body in {"rows/": b"", "rows/a.jsonl": b'{"value":"a"}', "rows/_SUCCESS": b""}.items():
        s3.client.put_object(Bucket=s3_bucket, Key=key, Body=body)
    for pattern in ("", "/", "/*", "/**"):
        rows = open_rows(f"s3://{s3_bucket}/rows{pattern}", **s3.options)
        assert rows.paths == (f"{s3_bucket}/rows/a.jsonl",), pattern


def test_a_name_that_looks_like_a_pattern(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"value": ["v"]}), tmp_path / "a[1].parquet")
    assert open_rows(str(tmp_path / "a[1].parquet")).rows == 1


@for_each("suffix", [".parquet", ".arrow", ".csv", ".jsonl"])
def test_another_filesystem(suffix: str) -> None:
    fs = fsspec.filesystem("memory")
    table = pa.table({"value": ["a", "b"]})
    with fs.open(f"/rows/x{suffix}", "wb") as sink:
        if suffix == ".parquet":
            pa.parquet.write_table(table, sink)
        elif suffix == ".arrow":
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
        else:
            sink.write(b"value\na\nb\n" if suffix == ".csv" else b'{"value":"a"}\n\r\n{"value":"b"}')
    try:
        rows = open_rows(f"memory://rows/x{suffix}")
        assert [row["value"] for row in imported(rows)] == [b"a", b"b"]
    finally:
        fs.rm("/rows", recursive=True)


def test_texts(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(
        "key,value,value_base64,properties,event_time,sequence_id,topic\n"
        'a,"x\ny",,"{""p"":""q""}",2026-11-01T12:00:00.123Z,7,t\n'
        '"","",,,1793534400123,,t\n'
        ",,/w==,{},2026-11-01 12:00:00.123,,\n"
        ",,,,-000001-01-01T00:00:00.000Z,,\n"
    )
    rows = open_rows(str(path))
    assert rows.ignored_columns == ("topic",)
    made = imported(rows)
    assert [row["key"] for row in made] == ["a", "", None, None]
    assert [row["value"] for row in made] == [b"x\ny", b"", b"\xff", None]
    assert [row["properties"] for row in made] == [[("p", "q")], [], [], []]
    assert [row["sequence_id"] for row in made] == [7, 1, 2, 3]
    noon = 1793534400123000
    assert [row["event_time"] for row in made] == [noon, noon, noon, -62198755200000000]


def test_blank_lines_of_one_column_are_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.csv"
    for end in ("\n", "\r\n"):
        path.write_bytes(end.join(['"value"', '"a"', "", '""', "", '"b\n\nc"', "", ""]).encode())
        for block in (12, 1 << 20):
            monkeypatch.setattr(row_files, "_CSV_BLOCK", block)
            values = [row["value"] for row in imported(open_rows(str(path)))]
            assert values == [b"a", None, b"", None, b"b\n\nc", None]
    path.write_bytes(b"value,key\na,k\n\nb,k\n")
    assert [row["value"] for row in imported(open_rows(str(path)))] == [b"a", b"b"]


def test_json_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        b'{"value":"a"}',
        b'{"value":null,"key":"k"}',
        b'{"value":"b","properties":{"x":"1","x":"2"},"event_time":1793534400123}',
        b'{"value_base64":"/w==","key_bytes_base64":"/w==","publish_time":"2026-11-01T12:00:00.123Z"}',
        b"",
        '{"value":"ü\\u0000"}'.encode(),
    ]
    (tmp_path / "x.ndjson").write_bytes(b"\n".join(lines))
    for block in (1, 40, 1 << 20):
        monkeypatch.setattr(json_rows, "_BLOCK", block)
        made = imported(open_rows(str(tmp_path / "x.ndjson")))
        assert [row["value"] for row in made] == [b"a", None, b"b", b"\xff", "ü\0".encode()]
        assert made[2]["properties"] == [("x", "1"), ("x", "2")]
        assert made[2]["event_time"] == 1793534400123000
        assert made[3]["key_bytes"] == b"\xff"
        assert made[3]["publish_time"] == 1793534400123000


@for_each(
    ("line", "text"),
    [
        (b"{", "line 3: Expecting"),
        (b"[]", "line 3: not a JSON object"),
        (b'{"value":"a","colour":1}', "line 3: no such column: colour; accepted are value"),
        (b'{"key":"a"}', "line 3: no value; a tombstone has"),
        (b'{"value":{"a":1}}', "line 3: value: "),
        (b'{"value":"a","sequence_id":"x"}', "line 3: sequence_id: "),
        (b'{"value":"a","event_time":"noon"}', "line 3: event_time: "),
        (b'{"value_base64":"*"}', "line 3: value_base64: "),
        (b'{"value":"1","value_base64":"Mg=="}', "line 3: the row has both value and value_base64"),
        *(
            (f'{{"value":"a","{name}":{number}}}'.encode(), f"line 3: {name}: .* is not an integer of 64 bits")
            for name in ("sequence_id", "ledger_id")
            for number in ("1.5", "1.0", "1e400", "true", '"7"', str(2**63), str(2**64 - 1), str(-(2**63) - 1))
        ),
        *(
            (f'{{"value":"a","{name}":{time}}}'.encode(), f"line 3: {name}: {text}")
            for name in ("event_time", "publish_time", "deliver_at_time")
            for time, text in (
                ("99999999999999999999", "a time of 9{20} ms is after the year 9999"),
                ("-99999999999999999999", "a time of -9{20} ms is too early to be read back"),
                ("1700000000123456", "a time of 1700000000123456 ms is .* perhaps these are microseconds"),
                ('"+010000-01-01T00:00:00Z"', "a time of 253402300800000 ms is after the year 9999"),
                ('"-999999-01-01T00:00:00Z"', "a time of -3.* ms is too early"),
                ("1793534400", "1793534400 looks like seconds; expected ms since 1970, such as 1793534400000"),
                ("-1", "-1 looks like seconds"),
                ('"2026-11-01T12:00:00.123999Z"', "the time is finer than 1 ms"),
                ('"2026-11-01T12:00:00.123000001"', "the time is finer than 1 ms"),
                ('"1969-12-31T23:59:59.999999Z"', "the time is finer than 1 ms"),
                ('"99999999-01-01"', ""),
                ('"now"', ""),
                ("1.5", ""),
            )
        ),
        *(
            (f'{{"value":"a","{name}":{time}}}'.encode(), f"line 3: {name}: a time of 0 .* make it null")
            for name in ("event_time", "deliver_at_time")
            for time in ("0", '"1970-01-01"', '"1970-01-01T01:00:00+01:00"')
        ),
        (b'{"value":"a","sequence_id":0x10}', "line 3: Expecting"),
        (b'{"value":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "line 3: maximum recursion depth"),
        (b'{"value":"a","properties":{"a":1}}', "line 3: its properties are not an object with texts as values"),
        (b'{"value":"a","value":"b"}', "line 3: a name occurs twice"),
        (b'{"value":"\xff"}', "line 3: 'utf-8' codec"),
    ],
)
@for_each("block", [8, 1 << 20])
def test_bad_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes, text: str, block: int) -> None:
    monkeypatch.setattr(json_rows, "_BLOCK", block)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"value":"a"}\n\n' + line + b'\n{"value":"b"}\n')
    with pytest.raises(InvalidRowsError, match=text) as caught:
        imported(open_rows(str(path)))
    assert caught.value.key == str(path)


@for_each(
    ("name", "content", "text"),
    [
        ("x.parquet", b"PAR1 no", "x.parquet: .*Parquet"),
        ("x.arrow", b"ARROW1 no", "x.arrow: "),
        ("x.feather", b"no", "x.feather: "),
        ("x.csv", b"", "x.csv: Empty CSV"),
        ("x.csv", b"value,key\na\n", "x.csv: .*Expected 2 columns"),
        ("x.csv", b"value,sequence_id\na,b\n", "x.csv: row 0: sequence_id: 'b' is not an integer of 64 bits"),
        ("x.csv", b"value,sequence_id\na,\na,0x10\n", "x.csv: row 1: sequence_id: '0x10' is not an integer"),
        ("x.csv", b"value_base64\n*\n", "x.csv: row 0: value_base64: "),
        ("x.csv", b"value,value\na,b\n", "x.csv: a column occurs twice: value"),
        ("x.csv", b"value,topic,topic\na,b,c\n", "x.csv: a column occurs twice: topic"),
        ("x.csv", b"value_base64,value\nMg==,\nMg==,a\n", "x.csv: row 1: the row has both value and value_base64"),
        ("x.csv", b"value,event_time\na,\na,99999999999999999999\n", "row 1: event_time: a time of 9{20} ms is after"),
        ("x.csv", b"value,event_time\na,\na,1793534400\n", "row 1: event_time: 1793534400 looks like seconds"),
        ("x.csv", b"value,event_time\na,0\n", "row 0: event_time: a time of 0"),
        (
            "x.csv",
            b"value,event_time\na,\na,2026-11-01 12:00:00.000001\n",
            "row 1: event_time: the time is finer than",
        ),
        ("x.csv", b"value,sequence_id\na,18446744073709551615\n", "row 0: sequence_id: .*18446744073709551615"),
        ("x.csv", b"value,sequence_id\na,1.5\n", "row 0: sequence_id: '1.5'"),
        ("x.csv", b"value,sequence_id\na,+1\n", "row 0: sequence_id: '.1'"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidRowsError, match=text):
        imported(open_rows(str(path)))


CLOSED = "text after the closing quote"
OPEN = "a quote is not closed at the end of the file"


@for_each(
    ("content", "text"),
    [
        (b'key,value\na,"5 inch\nb,two\nc,three\n', f"line 2: value: {OPEN}"),
        (b'key,value\na,b\n"c\nd",e\nf,"tw', f"line 5: value: {OPEN}"),
        (b'key,value\na,"', f"line 2: value: {OPEN}"),
        (b'key,value\na,"b""', f"line 2: value: {OPEN}"),
        (b'key,value\na,"b"c\n', f"line 2: value: {CLOSED}"),
        (b'key,value\n"a" ,b\n', f"line 2: key: {CLOSED}"),
        (b'key,value\r\na,"b\r\nc,"d"\r\n', f"line 2: value: {CLOSED}"),
        (b'\xef\xbb\xbf"key","value"\na,"b"c\n', f"line 2: value: {CLOSED}"),
        (b'key,value\na,b\na,"b""c"d\n', f"line 3: value: {CLOSED}"),
    ],
)
@for_each("block", [32, 1 << 20])
def test_quotes_that_swallow_rows_or_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, text: str, block: int
) -> None:
    monkeypatch.setattr(row_files, "_CSV_BLOCK", block)
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    # With small blocks pyarrow may fail before the file's end.
    with pytest.raises(InvalidRowsError, match=text if block > 32 else None):
        imported(open_rows(str(path)))


@for_each("block", [32, 1 << 20])
def test_quotes_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(row_files, "_CSV_BLOCK", block)
    path = tmp_path / "x.csv"
    rows = {b'5" inch': b'5" inch', b'"5"" inch"': b'5" inch', b'""""': b'"', b'""': b"", b'"a,""\r\n"': b'a,"\r\n'}
    for end in (b"\n", b"\r\n", b"\r"):
        for last in (b"", end):
            path.write_bytes(b"\xef\xbb\xbfkey,value" + end + end.join(b"k," + one for one in rows) + last)
            assert [row["value"] for row in imported(open_rows(str(path)))] == [*rows.values()]


@for_each("is_local", [True, False])
def test_streams_without_an_end(tmp_path: Path, is_local: bool) -> None:
    table = pa.table({"value": ["a", "b"]})
    sink = pa.BufferOutputStream()
    writer = pa.ipc.new_stream(sink, table.schema)
    writer.write_table(table, max_chunksize=1)
    cut = sink.tell()
    writer.close()
    content = sink.getvalue().to_pybytes()
    assert len(content) == cut + 8
    path = tmp_path / "x.arrow"
    place = str(path) if is_local else f"memory://{path}"

    def values(size: int) -> list[bytes]:
        with fsspec.open(place, "wb") as file:
            file.write(content[:size])
        return [row["value"] for row in imported(open_rows(place))]

    assert values(cut + 8) == [b"a", b"b"]
    for size in range(cut, cut + 8):
        with pytest.raises(InvalidRowsError, match=r"x.arrow: (the stream has no end marker|Corrupted )"):
            values(size)


def test_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("")
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "no.parquet", tmp_path / "empty", tmp_path / "*.parquet"):
        with pytest.raises(NotFoundError, match=str(path).replace("*", r"\*")):
            open_rows(str(path))
    with pytest.raises(InvalidRowsError, match=r"unknown type of file; supported types are .parquet"):
        open_rows(str(tmp_path / "x.txt"))
    with pytest.raises(LedgerfsError):
        open_rows("nothing://x/y.parquet")


def test_files_with_other_columns(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"value": ["a"]}), tmp_path / "1.parquet")
    pa.parquet.write_table(pa.table({"value": [b"a"]}), tmp_path / "2.parquet")
    with pytest.raises(
        InvalidRowsError, match=r"2.parquet: the file has other columns than .*1.parquet: value \(binary\)"
    ):
        list(open_rows(str(tmp_path)).batches())


def test_large_rows_come_a_few_at_a_time(tmp_path: Path) -> None:
    pa.parquet.write_table(
        pa.table({"value": [bytes([i]) * (4 << 20) for i in range(20)]}),
        tmp_path / "x.parquet",
        compression="none",
        use_dictionary=False,
    )
    batches = list(open_rows(str(tmp_path / "x.parquet")).batches())
    assert max(batch.num_rows for batch in batches) <= 4
    assert sum(batch.num_rows for batch in batches) == 20
