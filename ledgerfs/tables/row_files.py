"""Read rows to write as messages, from one Parquet, Arrow, JSON lines or CSV file, or from a folder of files.

Accepts the files of `ledgerfs export`, and others with the same column names. Memory is bounded by some MiB of rows, or by one batch of an
Arrow file.
"""

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pyarrow.types as pt
from fsspec.implementations.local import LocalFileSystem

from ledgerfs.errors import InvalidRowsError, LedgerfsError, NotFoundError
from ledgerfs.messages.encode.input_columns import IGNORED_COLUMNS, first_bad
from ledgerfs.messages.encode.text_columns import TEXT_COLUMNS, from_texts
from ledgerfs.messages.text.csv_quotes import QuoteCheck
from ledgerfs.storage.credentials import without_credentials
from ledgerfs.storage.failures import translate
from ledgerfs.storage.url_filesystem import filesystem_of
from ledgerfs.tables.json_rows import JSON_SCHEMA, PLAIN_SCHEMA, json_rows
from ledgerfs.tables.path_patterns import is_pattern, with_literal_beginning

_ROWS = 1 << 15
_BYTES = 4 << 20
"""Maximum rows of a batch from a Parquet file, and its approximate maximum bytes."""

_CSV_BLOCK = 16 << 20
_CSV_HEADER = 1 << 20
"""Maximum bytes of a CSV header."""

_READ_AHEAD = 8 << 20
_COUNTED_FILES = 100
"""Maximum number of files for which rows are counted in advance, which opens each file."""

_LEADING_NUMBER = re.compile(r"[0-9]+")
_LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class RowFile:
    """Rows in one file, or in several files that are read in order.

    Attributes
    ----------
    paths
        The files, in order.
    schema
        Columns of all files, without `ignored_columns`.
    ignored_columns
        Names of columns that messages do not have.
    rows
        Number of rows; None if unknown before reading.

    """

    paths: Sequence[str]
    schema: pa.Schema
    ignored_columns: Sequence[str]
    rows: int | None
    _fs: Any
    _value_type: pa.DataType | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows. Raises `InvalidRowsError` with the file, and the line if known, and errors of the store."""
        for path in self.paths:
            with _naming(path), closing(_opened(self._fs, path, self._value_type)) as file:
                if file.schema != self.schema:
                    raise InvalidRowsError(
                        f"the file has other columns than {self.paths[0]}: {_difference(self.schema, file.schema)}"
                    )
                yield from file.batches()


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The current files of a folder, a pattern or a path.

    Attributes
    ----------
    paths
        The files, in order.
    folders
        Local folders that must be complete: listed folders, and targets of links to files. Empty for other stores, and for a single
        file.

    """

    paths: Sequence[str]
    folders: frozenset[Path]
    _asked: str
    _fs: Any

    def open(self, value_type: pa.DataType | None = None) -> RowFile:
        """Open the files with values of a type, or bytes. Raises `NotFoundError` if there are none, and `InvalidRowsError`."""
        if not self.paths:
            raise NotFoundError(
                f"no file with rows; supported types are {', '.join(_KINDS)}", key=without_credentials(self._asked)
            )
        first_path = self.paths[0]
        with _naming(first_path), closing(_opened(self._fs, first_path, value_type)) as first:
            schema, ignored = first.schema, first.ignored
        rows = _count(self._fs, self.paths, value_type) if len(self.paths) <= _COUNTED_FILES else None
        return RowFile(self.paths, schema, ignored, rows, self._fs, value_type)


def open_rows(path: str, **storage_options: Any) -> RowFile:  # noqa: ANN401  (fsspec's)
    """Open a file of rows, a folder of files, or the files of a pattern (``*``, ``?``, ``[…]``), sorted by leading number, then name.

    Parameters
    ----------
    path
        A local path or any URL that fsspec opens. The suffix selects the format: ``.parquet``; ``.arrow``, ``.feather``, ``.ipc``;
        ``.jsonl``, ``.ndjson``, ``.json`` (an object on each line); ``.csv`` (with a header). Names that begin with ``.`` or ``_`` are
        ignored; everything else in a folder, or that matches a pattern, is read or raises an error.
    storage_options
        Options of the filesystem.

    Raises
    ------
    NotFoundError
        No such file, or no file of rows in the folder.
    InvalidRowsError
        An unknown suffix, or a file with another format; a subfolder, or a broken link.

    """
    return find_rows(path, **storage_options).open()


def find_rows(path: str, **storage_options: Any) -> FoundFiles:  # noqa: ANN401  (fsspec's)
    """List the files of `open_rows` without opening them; raises the same errors, but returns an empty result if there are none."""
    fs, root = filesystem_of(path, storage_options)
    with _naming(path):
        return _found(fs, root, path)


def _found(fs: Any, root: str, path: str) -> FoundFiles:  # noqa: ANN401
    if fs.isdir(root):
        infos, above = fs.ls(root, detail=True), root
    elif is_pattern(root) and not fs.exists(root):
        infos = fs.glob(with_literal_beginning(root, fs.exists), detail=True).values()
        above = _above_pattern(root)
    else:
        _require_kind(root)
        return FoundFiles((root,), frozenset(), path, fs)
    listed = {info["name"].rstrip("/"): info for info in infos}
    # Stores may list a folder as an object in itself; skip it and the parent folders of found files.
    folders = {str(PurePosixPath(root)), *(str(parent) for name in listed for parent in PurePosixPath(name).parents)}
    found = [name for name in listed if name not in folders and not _is_hidden(name, above)]
    for name in sorted(found):
        _require_file(fs, name, listed[name]["type"], path)
    read = _folders_read(found, above or "/") if isinstance(fs, LocalFileSystem) else frozenset()
    return FoundFiles(tuple(sorted(found, key=_by_number)), read, path, fs)


def _folders_read(names: Iterable[str], above: str) -> frozenset[Path]:
    """Return the folders of local files, the folders of link targets, and the root folder."""
    files = [Path(name) for name in names]
    links = (Path(os.path.realpath(file)) for file in files if file.is_symlink())
    folders = {Path(above), *(file.parent for file in (*files, *links))}
    return frozenset(folder for folder in folders if folder.is_dir())


def _above_pattern(pattern: str) -> str:
    """Return the folders before a pattern's first special character, which the user named even if hidden."""
    parts = pattern.split("/")
    return "/".join(parts[: next(i for i, part in enumerate(parts) if is_pattern(part))])


def _is_hidden(path: str, above: str) -> bool:
    return any(part.startswith((".", "_")) for part in path[len(above) :].split("/"))


def _require_file(fs: Any, path: str, kind: str, asked: str) -> None:  # noqa: ANN401
    """Raise `InvalidRowsError` for a listed path that is not a readable file: otherwise rows could be missing without an error."""
    name = without_credentials(path)
    folder = without_credentials(asked).rstrip("/")
    if kind != "file" and not fs.isfile(path):  # isfile() follows links
        if not fs.isdir(path):
            raise InvalidRowsError("not a file, nor a link to one", key=name)
        example = "" if is_pattern(asked) else f", such as '{folder}/**/*.parquet'"
        raise InvalidRowsError(f"the path is a folder; select the files in it with a pattern{example}", key=name)
    _require_kind(path, "" if is_pattern(asked) else f"; select files with a pattern, such as '{folder}/*.parquet'")


def _require_kind(path: str, hint: str = "") -> None:
    if PurePosixPath(path).suffix.lower() not in _KINDS:
        raise InvalidRowsError(
            f"unknown type of file; supported types are {', '.join(_KINDS)}{hint}", key=without_credentials(path)
        )


def _by_number(path: str) -> tuple[float, str]:
    match = _LEADING_NUMBER.match(PurePosixPath(path).name)
    return (int(match[0]) if match else float("inf"), path)


def _count(fs: Any, paths: Sequence[str], value_type: pa.DataType | None) -> int | None:  # noqa: ANN401
    counts = []
    for path in paths:
        with _naming(path), closing(_opened(fs, path, value_type)) as file:
            if file.rows is None:
                return None
            counts.append(file.rows)
    return sum(counts)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Convert errors of libraries about a file to ledgerfs errors."""
    name = without_credentials(path)
    try:
        yield
    except LedgerfsError as error:
        if error.key is None:
            error.key = error.filename = name
        raise
    except (pa.ArrowException, ValueError, EOFError) as error:
        raise InvalidRowsError(" ".join(str(error).split())[:_LONGEST_REASON], key=name) from error
    except OSError as error:
        if error.errno is None:  # pyarrow's, about the file's content
            raise InvalidRowsError(" ".join(str(error).split())[:_LONGEST_REASON], key=name) from error
        raise translate(error, name) from error


@dataclass(frozen=True, slots=True)
class _Opened:
    """One open file: its schema, its number of rows, and its batches."""

    schema: pa.Schema
    ignored: Sequence[str]
    rows: int | None
    batches: Callable[[], Iterator[pa.RecordBatch]]
    source: Any

    def close(self) -> None:
        self.source.close()


class _Watched(io.RawIOBase):
    """A source of bytes that observes reads: pyarrow reports neither all damage nor the end of a file.

    Attributes
    ----------
    has_ended
        Whether a read returned fewer bytes than requested.

    """

    def __init__(self, source: Any, follow: Callable[[bytes], None] | None = None) -> None:  # noqa: ANN401
        super().__init__()
        self._source = source
        self._follow = follow
        self.has_ended = False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        block: bytes = self._source.read(size)
        self.has_ended |= len(block) < size
        if self._follow is not None:
            self._follow(block)
        return block


def _opened(fs: Any, path: str, value_type: pa.DataType | None) -> _Opened:  # noqa: ANN401
    kind = _KINDS[PurePosixPath(path).suffix.lower()]
    is_local = "file" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol)
    source = pa.OSFile(path) if is_local and kind is not _json else fs.open(path, "rb")
    try:
        return _json(source, value_type) if kind is _json else kind(source)
    except BaseException:
        source.close()
        raise


def _parquet(source: Any) -> _Opened:  # noqa: ANN401
    # pre_buffer would keep whole row groups in memory.
    file = pa.parquet.ParquetFile(source, buffer_size=_READ_AHEAD, pre_buffer=False)
    schema, ignored = _split(file.schema_arrow)
    meta = file.metadata
    groups = [meta.row_group(i) for i in range(meta.num_row_groups)]
    widest = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0)
    rows = max(1, min(_ROWS, _BYTES // max(widest, 1)))
    return _Opened(schema, ignored, meta.num_rows, lambda: file.iter_batches(rows, columns=schema.names), source)


def _arrow(source: Any) -> _Opened:  # noqa: ANN401
    is_file = source.read(6) == b"ARROW1"
    source.seek(0)
    stream = _Watched(source)
    reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(stream)
    schema, ignored = _split(reader.schema)

    def batches() -> Iterator[pa.RecordBatch]:
        found = (reader.get_batch(i) for i in range(reader.num_record_batches)) if is_file else reader
        yield from (batch.select(schema.names) for batch in found)
        # pyarrow mistakes the end of a truncated file for the end of the stream.
        if stream.has_ended:
            raise ValueError("the stream has no end marker: it is cut off, or its writer was not closed")

    return _Opened(schema, ignored, None, batches, source)


def _json(source: BinaryIO, value_type: pa.DataType | None = None) -> _Opened:
    if value_type is not None and pt.is_nested(value_type):
        raise InvalidRowsError(
            "JSON lines support neither columns of fields nor values with parts: import such rows from Parquet or Arrow, or fields from CSV"
        )
    schema = JSON_SCHEMA if value_type is None or _is_of_bytes(value_type) else PLAIN_SCHEMA
    return _Opened(schema, (), None, lambda: json_rows(source, schema), source)


def _is_of_bytes(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_binary(kind) or pt.is_fixed_size_binary(kind))


def _csv(source: Any) -> _Opened:  # noqa: ANN401
    named = _csv_header(source)
    quotes = QuoteCheck(named)
    # The schema of the values determines whether a text is a number.
    types = dict.fromkeys(named, pa.string()) | dict(TEXT_COLUMNS) | {"sequence_id": pa.string()}
    reader = pa.csv.open_csv(
        _Watched(source, quotes.follow),
        pa.csv.ReadOptions(block_size=_CSV_BLOCK),
        # In a file with one column, a blank line is a null.
        pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(named) != 1),
        pa.csv.ConvertOptions(
            column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    names = reader.schema.names
    for name in names:
        if names.count(name) > 1:
            raise InvalidRowsError(f"a column occurs twice: {name}")
    plain = _plain_texts(pa.RecordBatch.from_pylist([], reader.schema), 0)
    schema = pa.schema([(name, column.type) for name, column in plain.items()])

    def batches() -> Iterator[pa.RecordBatch]:
        row = 0
        for batch in reader:
            made = _plain_texts(batch, row)
            row += batch.num_rows
            yield pa.RecordBatch.from_pydict({field.name: made[field.name].cast(field.type) for field in schema})
        quotes.finish()

    return _Opened(schema, _split(reader.schema)[1], None, batches, source)


def _plain_texts(batch: pa.RecordBatch, first_row: int) -> dict[str, pa.Array]:
    """Return the columns of the message table; raises `ValueError` with the row."""

    def convert(rows: pa.RecordBatch) -> dict[str, pa.Array]:
        return from_texts(dict(zip(rows.schema.names, rows.columns, strict=True)))

    try:
        return convert(batch)
    except ValueError:
        row, error = first_bad(convert, batch)
        raise ValueError(f"row {first_row + row}: {error}") from error


def _csv_header(source: Any) -> list[str]:  # noqa: ANN401
    """Return the names in the first nonblank line, and seek back to the start."""
    text = source.read(_CSV_HEADER).decode("utf-8-sig", "replace")
    source.seek(0)
    try:
        return next(filter(None, csv.reader(io.StringIO(text, newline=""))), [])
    except csv.Error as error:
        raise InvalidRowsError(f"the CSV has no valid header: {error}") from error


_KINDS: Mapping[str, Callable[[Any], _Opened]] = MappingProxyType(
    {
        ".parquet": _parquet,
        ".arrow": _arrow,
        ".feather": _arrow,
        ".ipc": _arrow,
        ".jsonl": _json,
        ".ndjson": _json,
        ".json": _json,
        ".csv": _csv,
    }
)


def _split(schema: pa.Schema) -> tuple[pa.Schema, tuple[str, ...]]:
    """Split off `IGNORED_COLUMNS`; return the other columns, and the ignored names."""
    wanted = [field for field in schema if field.name not in IGNORED_COLUMNS]
    return pa.schema(wanted), tuple(name for name in schema.names if name in IGNORED_COLUMNS)


def _difference(wanted: pa.Schema, found: pa.Schema) -> str:
    fields = [field for field in found if field not in wanted] or [field for field in wanted if field not in found]
    return ", ".join(f"{field.name} ({field.type})" for field in fields) or "another order"
