"""The file of a dump: JSON, compressed with zstd, one line per node, so that writing and reading need little memory.

The document is one object: ``{"ledgerfs": {…}, "/ledgers/00/0000/L0007": {"data": "<base64>", "created_ms": …}, …, "end": {…}}``. Besides
nodes it contains the answers of bookies, under ``ledger end <id>``, ``cursor state <path>``, ``topic policies <namespace>``
and ``schema <path of the locator below /schemas> <version>``. `_KINDS` lists the fields of each.
"""

import io
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from uuid import uuid4

import zstandard

from ledgerfs.errors import CorruptObjectError, InvalidOptionError, LedgerfsError, NotFoundError, ObjectExistsError
from ledgerfs_cluster.snapshot.answers import (
    Answer,
    CursorAnswer,
    LastEnd,
    LedgerEndAnswer,
    SchemaAnswer,
    TopicPoliciesAnswer,
)
from ledgerfs_cluster.zookeeper.node import Node

_FORMAT, _VERSION = "cluster-dump", 1
_NAMES = {"entry": "data", "payload": "data"}
"""{attribute: its name in JSON}, where they differ."""
_CLOSING = b"}\n"
"""The last line of every finished file."""
_LONGEST_LINE = 64 << 20
"""Nodes have up to 1 MiB, or up to the limit that ZooKeeper is configured with."""
_LARGEST_WINDOW = 128 << 20


@dataclass(frozen=True, slots=True)
class DumpHeader:
    """Cluster of a dump, root of its ledgers, and the dump's beginning, ms since 1970 UTC."""

    cluster: str
    ledgers_path: str
    began_ms: int


@dataclass(frozen=True, slots=True)
class DumpEnd:
    """The dump is complete."""

    nodes: int
    ended_ms: int


Record = DumpHeader | Node | Answer | SchemaAnswer | DumpEnd


class DumpWriter:
    """Appends records to a file; `flush` writes all of them."""

    __slots__ = ("_stream",)

    def __init__(self, file: BinaryIO) -> None:
        self._stream = zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(file, closefd=False)

    def write(self, record: Record) -> None:
        """Add a record; a header begins the file, an end completes it."""
        self._stream.write(_line(record))

    def flush(self) -> None:
        """Write all added records."""
        self._stream.flush(zstandard.FLUSH_FRAME)


def read_dump(path: Path) -> Iterator[Record]:
    """Yield the records of a finished dump.

    Raises `NotFoundError`, and `CorruptObjectError` for a file that is not a dump, is damaged, or not finished.
    """
    try:
        opened = path.open("rb")
    except OSError as error:
        raise NotFoundError(f"the dump cannot be opened: {error.strerror}", key=str(path)) from error
    with opened as file:
        yield from records_in(file, str(path))


def records_in(file: BinaryIO, name: str) -> Iterator[Record]:
    """Yield the records of a finished dump; raises `CorruptObjectError`. ``name`` is for errors."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    reader = decompressor.stream_reader(file, read_across_frames=True)
    record = None
    try:
        for record in _records(_lines(io.BufferedReader(reader, 1 << 17), name), name):
            yield record
    except zstandard.ZstdError as error:
        raise CorruptObjectError(f"the dump is damaged, or not a dump: {error}", key=name) from error
    if not isinstance(record, DumpEnd):
        raise CorruptObjectError("the dump is incomplete: its end is missing", key=name)


@contextmanager
def new_private_file(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that only its owner can read, since nodes contain passwords; it appears at ``path`` once it is complete.

    Raises `ObjectExistsError` if the file exists, and `InvalidOptionError` if it cannot be written.
    """
    if path.exists():
        raise ObjectExistsError("the file already exists; choose another name, or delete it first", key=str(path))
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    except LedgerfsError:
        raise
    except OSError as error:
        raise InvalidOptionError(f"the dump cannot be written: {error.strerror}", key=str(path)) from error
    finally:
        part.unlink(missing_ok=True)


def _lines(file: io.BufferedReader, name: str) -> Iterator[bytes]:
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise CorruptObjectError(f"the dump has a line of more than {_LONGEST_LINE} bytes", key=name)
        yield line


def _records(lines: Iterable[bytes], name: str) -> Iterator[Record]:
    """Yield the record of each line; raises `CorruptObjectError`, also for a wrong order of records."""
    number, is_ended = 0, False
    for number, line in enumerate(lines, 1):
        if is_ended or (number > 1 and line.rstrip() == _CLOSING.rstrip()):
            if line.rstrip() != _CLOSING.rstrip():
                raise CorruptObjectError(f"the dump has more lines after its end, from line {number} on", key=name)
            continue
        try:
            record = _record(line, is_first=number == 1)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptObjectError(f"line {number} of the dump is invalid: {error}", key=name) from error
        is_ended = isinstance(record, DumpEnd)
        yield record


def _line(record: Record) -> bytes:
    kind = next(one for one in _KINDS if isinstance(record, one.type))
    key = kind.prefix + " ".join(str(codec.reported(getattr(record, name))) for name, codec in kind.key.items())
    value = {_NAMES.get(name, name): codec.reported(getattr(record, name)) for name, codec in kind.fields.items()}
    if isinstance(record, DumpHeader):
        value = {"format": _FORMAT, "version": _VERSION, **value}
    text = json.dumps(key) + ": " + json.dumps(value, separators=(",", ":"))
    start, end = ("{" if isinstance(record, DumpHeader) else ","), "\n}\n" if isinstance(record, DumpEnd) else "\n"
    return f"{start}{text}{end}".encode()


def _record(line: bytes, *, is_first: bool) -> Record:
    """Return the record of a line. Raises `ValueError`, `KeyError` and `TypeError` for an invalid line."""
    start = b"{" if is_first else b","
    if not line.startswith(start) or not line.endswith(b"\n"):
        raise ValueError("the line is cut off")
    ((key, value),) = json.loads(b"{" + line[1:] + b"}").items()
    kind = next((one for one in _KINDS if key.startswith(one.prefix)), None)
    if kind is None:
        raise ValueError(f"unknown kind of record {key[:100]!r}")
    is_header = kind.type is DumpHeader
    if is_header != is_first or (is_header and (value["format"], value["version"]) != (_FORMAT, _VERSION)):
        raise ValueError(f"not the header of a {_FORMAT} of version {_VERSION}")
    parts = key.removeprefix(kind.prefix).rsplit(" ", len(kind.key) - 1) if kind.key else []
    values = {name: codec.taken(part) for (name, codec), part in zip(kind.key.items(), parts, strict=True)}
    values |= {name: codec.taken(value[_NAMES.get(name, name)]) for name, codec in kind.fields.items()}
    found: Record = kind.type(**values)
    return found


def _number(value: object, bits: int) -> int:
    """Return a number that has at most ``bits`` bits besides its sign; raises `ValueError` for a larger one."""
    number = int(str(value))
    if not -(1 << bits) <= number < 1 << bits:
        raise ValueError(f"{number} is too large for {bits + 1} bits")
    return number


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _policies(value: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401  (JSON)
    return {str(name): dict(one) for name, one in dict(value).items()}


class _Codec(NamedTuple):
    """Convert an attribute to JSON, and back; the latter raises `ValueError`, `KeyError` and `TypeError`."""

    reported: Callable[[Any], Any]
    taken: Callable[[Any], Any]

    def or_none(self) -> "_Codec":
        """Return the same for an attribute that may be None."""
        both = (lambda value, one=one: None if value is None else one(value) for one in self)
        return _Codec(*both)


class _Kind(NamedTuple):
    """A kind of records: prefix of its keys, attributes in the key after that, and attributes in the value."""

    type: Any
    prefix: str
    key: Mapping[str, _Codec]
    fields: Mapping[str, _Codec]


_BYTES = _Codec(lambda data: b64encode(data).decode(), partial(b64decode, validate=True))
_INT32, _INT64 = (_Codec(int, partial(_number, bits=bits)) for bits in (31, 63))
_TEXT = _Codec(str, _text)
_REASON = {"trouble": _TEXT.or_none()}
_KINDS = (
    _Kind(
        *(Node, "/", {"path": _Codec(lambda path: path[1:], lambda rest: f"/{rest}")}),
        {"data": _BYTES, "created_ms": _INT64, "changed_ms": _INT64, "version": _INT32, "children": _INT32},
    ),
    _Kind(
        *(LedgerEndAnswer, "ledger end ", {"ledger_id": _INT64}),
        {"end": _Codec(lambda end: end.name, LastEnd.__getitem__), "entries": _INT64, "size": _INT64, **_REASON},
    ),
    _Kind(CursorAnswer, "cursor state ", {"path": _TEXT}, {"entry": _BYTES.or_none(), **_REASON}),
    _Kind(
        TopicPoliciesAnswer, "topic policies ", {"namespace": _TEXT}, {"policies": _Codec(dict, _policies), **_REASON}
    ),
    _Kind(SchemaAnswer, "schema ", {"name": _TEXT, "version": _INT64}, {"payload": _BYTES.or_none(), **_REASON}),
    _Kind(DumpHeader, "ledgerfs", {}, {"cluster": _TEXT, "ledgers_path": _TEXT, "began_ms": _INT64}),
    _Kind(DumpEnd, "end", {}, {"nodes": _INT64, "ended_ms": _INT64}),
)
"""The kinds of lines."""
