"""The file of a dump: JSON, compressed with zstd, one line a node, so that neither writing nor reading it needs much memory.

The document is one object: ``{"ledgerfs": {…}, "/ledgers/00/0000/L0007": {"data": "<base64>", "created_ms": …}, …, "end": {…}}``. Besides
nodes it has what bookies told, under ``ledger end <id>``, ``cursor state <path>``, ``topic policies <namespace>``
and ``schema <path of the locator below /schemas> <version>``, and ``part <name>`` behind each part of the walk. A file
that is not finished ends after a whole frame of zstd, or in one that a second run leaves out.
"""

import io
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import zstandard

from ledgerfs.clusters.answers import Answer, CursorAnswer, LastEnd, LedgerEndAnswer, SchemaAnswer, TopicPoliciesAnswer
from ledgerfs.errors import CorruptObjectError, NotFoundError
from ledgerfs.storage.zookeeper.node import Node

_FORMAT, _VERSION = "cluster-dump", 1
_HEADER, _PART, _END, _LEDGER_END, _CURSOR_STATE = "ledgerfs", "part ", "end", "ledger end ", "cursor state "
_TOPIC_POLICIES, _SCHEMA = "topic policies ", "schema "
_CLOSING = b"}\n"
"""The last line of every finished file."""
_FRAME_BYTES = 1 << 20
_LONGEST_LINE = 64 << 20
"""Nodes have 1 MiB each, or as much as a ZooKeeper is told to take."""
_LARGEST_WINDOW = 128 << 20
_PIECE = 4096
"""Compressed bytes that are looked at at once; they hold 128 MiB at most."""


@dataclass(frozen=True, slots=True)
class DumpHeader:
    """Of which cluster a dump is, where that has its ledgers, and when the dump was begun, ms since 1970 UTC."""

    cluster: str
    ledgers_path: str
    began_ms: int


@dataclass(frozen=True, slots=True)
class PartDone:
    """A part of the walk has been read to its end."""

    name: str
    ended_ms: int


@dataclass(frozen=True, slots=True)
class DumpEnd:
    """The dump is complete."""

    nodes: int
    ended_ms: int


Record = DumpHeader | Node | Answer | SchemaAnswer | PartDone | DumpEnd


class CompressedBytes(Protocol):
    """What the bytes of a compressed file are read from."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many of the next bytes; none at the end."""
        ...


class DumpWriter:
    """Appends records to a file, in frames; each frame is in the file when it is full, and the last one with `flush`."""

    __slots__ = ("_compressor", "_file", "_lines", "_size")

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
        self._lines: list[bytes] = []
        self._size = 0

    def write(self, record: Record) -> None:
        """Add a record; a header begins the file, an end ends it."""
        line = _line(record)
        self._lines.append(line)
        self._size += len(line)
        if self._size >= _FRAME_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what there is."""
        if self._lines:
            # Ctrl-C may come at any point here: lines that are lost are read again, lines that are there twice are damage.
            lines, self._lines, self._size = self._lines, [], 0
            self._file.write(self._compressor.compress(b"".join(lines)))
            self._file.flush()


def read_dump(path: Path) -> Iterator[Record]:
    """Yield the records of a finished dump.

    Raises `NotFoundError`, and `CorruptObjectError` for a file that is no dump, is damaged, or not finished.
    """
    try:
        opened = path.open("rb")
    except OSError as error:
        raise NotFoundError(f"the dump cannot be opened: {error.strerror}", key=str(path)) from error
    with opened as file:
        yield from records_in(file, str(path))


def records_in(file: CompressedBytes, name: str) -> Iterator[Record]:
    """Yield the records of a finished dump; raises `CorruptObjectError`. ``name`` is for errors."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    reader = decompressor.stream_reader(cast("BinaryIO", file), read_across_frames=True)
    record = None
    try:
        for record in _records(_lines(io.BufferedReader(reader, 1 << 17), name), name):
            yield record
    except zstandard.ZstdError as error:
        raise CorruptObjectError(f"the dump is damaged, or none: {error}", key=name) from error
    if not isinstance(record, DumpEnd):
        reason = "the dump is not finished; the command that writes it goes on where it ended"
        raise CorruptObjectError(reason, key=name)


def read_partial(file: BinaryIO, name: str) -> Iterator[Record]:
    """Yield the records of a dump that may not be finished, and set the file to the end of its last whole frame.

    Raises `CorruptObjectError` for whole frames that no dump has.
    """
    ends: list[int] = [0]
    yield from _records(_framed_lines(file, ends), name)
    file.seek(ends[-1])


def _framed_lines(file: BinaryIO, ends: list[int]) -> Iterator[bytes]:
    """Yield the lines of whole frames, and note where the last of these ended."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    left, at = b"", 0
    frame, parts = decompressor.decompressobj(), list[bytes]()
    try:
        while piece := left or file.read(_PIECE):
            parts.append(frame.decompress(piece))
            left = frame.unused_data if frame.eof else b""
            at += len(piece) - len(left)
            if frame.eof:
                yield from b"".join(parts).splitlines(keepends=True)
                ends.append(at)
                frame, parts = decompressor.decompressobj(), []
            elif sum(map(len, parts)) > 2 * _LONGEST_LINE:
                return
    except zstandard.ZstdError:
        # What was being written when the process died.
        return


def _lines(file: io.BufferedReader, name: str) -> Iterator[bytes]:
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise CorruptObjectError(f"the dump has a line of more than {_LONGEST_LINE} bytes", key=name)
        yield line


def _records(lines: Iterable[bytes], name: str) -> Iterator[Record]:
    """Yield the record of each line; raises `CorruptObjectError`, for records in a wrong order, too."""
    number, is_ended = 0, False
    for number, line in enumerate(lines, 1):
        if is_ended or (number > 1 and line.rstrip() == _CLOSING.rstrip()):
            if line.rstrip() != _CLOSING.rstrip():
                raise CorruptObjectError(f"the dump goes on after its end, in line {number}", key=name)
            continue
        try:
            record = _record(line, is_first=number == 1)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptObjectError(f"line {number} is none of a dump: {error}", key=name) from error
        is_ended = isinstance(record, DumpEnd)
        yield record


def _line(record: Record) -> bytes:
    key, value = _told(record)
    text = json.dumps(key) + ": " + json.dumps(value, separators=(",", ":"))
    start, end = ("{" if isinstance(record, DumpHeader) else ","), "\n}\n" if isinstance(record, DumpEnd) else "\n"
    return f"{start}{text}{end}".encode()


def _told(record: Record) -> tuple[str, dict[str, Any]]:  # noqa: PLR0911  (one a kind)
    """Return the key and value of a record."""
    match record:
        case DumpHeader(cluster, ledgers_path, began_ms):
            about = {"format": _FORMAT, "version": _VERSION, "cluster": cluster, "ledgers_path": ledgers_path}
            return _HEADER, {**about, "began_ms": began_ms}
        case PartDone(name, ended_ms):
            return f"{_PART}{name}", {"ended_ms": ended_ms}
        case DumpEnd(nodes, ended_ms):
            return _END, {"nodes": nodes, "ended_ms": ended_ms}
        case LedgerEndAnswer(ledger_id, end, entries, size, trouble):
            return f"{_LEDGER_END}{ledger_id}", {"end": end.name, "entries": entries, "size": size, "trouble": trouble}
        case CursorAnswer(path, entry, trouble):
            data = None if entry is None else b64encode(entry).decode()
            return f"{_CURSOR_STATE}{path}", {"data": data, "trouble": trouble}
        case TopicPoliciesAnswer(namespace, policies, trouble):
            return f"{_TOPIC_POLICIES}{namespace}", {"policies": policies, "trouble": trouble}
        case SchemaAnswer(name, number, payload, trouble):
            data = None if payload is None else b64encode(payload).decode()
            return f"{_SCHEMA}{name} {number}", {"data": data, "trouble": trouble}
        case Node(path, content, created_ms, changed_ms, version, children):
            times = {"created_ms": created_ms, "changed_ms": changed_ms, "version": version, "children": children}
            return path, {"data": b64encode(content).decode(), **times}


def _record(line: bytes, *, is_first: bool) -> Record:  # noqa: C901, PLR0911  (one a kind)
    """Return the record of a line; raises `ValueError`, `KeyError` and `TypeError` for what is none."""
    start = b"{" if is_first else b","
    if not line.startswith(start) or not line.endswith(b"\n"):
        raise ValueError("it is cut, or no line of a dump")
    told = json.loads(b"{" + line[1:] + b"}")
    ((key, value),) = told.items()
    if is_first or key == _HEADER:
        if key != _HEADER or value["format"] != _FORMAT or value["version"] != _VERSION or not is_first:
            raise ValueError(f"not the beginning of a {_FORMAT} of version {_VERSION}")
        return DumpHeader(str(value["cluster"]), str(value["ledgers_path"]), int(value["began_ms"]))
    if key.startswith("/"):
        data = b64decode(value["data"], validate=True)
        bits = {"created_ms": 63, "changed_ms": 63, "version": 31, "children": 31}
        numbers = (_number(value[name], most) for name, most in bits.items())
        return Node(key, data, *numbers)
    if key.startswith(_LEDGER_END):
        end = LastEnd[value["end"]]
        ledger_id = _number(key.removeprefix(_LEDGER_END), 63)
        entries, size = (_number(value[name], 63) for name in ("entries", "size"))
        return LedgerEndAnswer(ledger_id, end, entries, size, value["trouble"])
    if key.startswith(_CURSOR_STATE):
        entry = None if value["data"] is None else b64decode(value["data"], validate=True)
        return CursorAnswer(key.removeprefix(_CURSOR_STATE), entry, value["trouble"])
    if key.startswith(_TOPIC_POLICIES):
        policies = {str(name): dict(one) for name, one in dict(value["policies"]).items()}
        return TopicPoliciesAnswer(key.removeprefix(_TOPIC_POLICIES), policies, value["trouble"])
    if key.startswith(_SCHEMA):
        name, _, version = key.removeprefix(_SCHEMA).rpartition(" ")
        payload = None if value["data"] is None else b64decode(value["data"], validate=True)
        return SchemaAnswer(name, _number(version, 63), payload, value["trouble"])
    if key.startswith(_PART):
        return PartDone(key.removeprefix(_PART), int(value["ended_ms"]))
    if key == _END:
        return DumpEnd(int(value["nodes"]), int(value["ended_ms"]))
    raise ValueError(f"it is of an unknown kind: {key[:100]!r}")


def _number(value: object, bits: int) -> int:
    """Return a number of so many bits besides its sign; raises `ValueError` for a larger one."""
    number = int(str(value))
    if not -(1 << bits) <= number < 1 << bits:
        raise ValueError(f"{number} is no number of {bits + 1} bits")
    return number
