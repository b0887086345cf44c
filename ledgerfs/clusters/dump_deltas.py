"""What changed from one dump to another, as a file: lines of the new one, and which lines of the old one, its base, lie between them.

The document is a JSON object, compressed and cut into lines as a dump (`ledgerfs.clusters.dump_file`): ``{"delta": {…}`` tells of which
base it is and the digest of the new dump; ``,"same <number>": [first, count]`` stands for so many lines of the base from one on, the
header being line 0; all other lines are the new dump's, its header, too. What of the base nothing names is gone. So the base is read once,
from its beginning to its end, and of neither more than a line is in memory.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice

import numpy as np

from ledgerfs.clusters.common_lines import digests_of, places_in
from ledgerfs.clusters.dump_file import CLOSING, DumpWriter
from ledgerfs.errors import CorruptObjectError
from ledgerfs.formats.array_types import Int64

_FORMAT, _VERSION = "cluster-dump-delta", 1
_HEADER, _SAME = "delta", "same "
_SAME_LINE = f',"{_SAME}'.encode()
_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class DeltaHeader:
    """The name of the base, and the SHA-256 of all lines of the new dump, in hexadecimal digits."""

    base: str
    digest: str


def write_delta(
    base: Iterable[bytes], lines: Callable[[], Iterable[bytes]], base_name: str, writer: DumpWriter
) -> None:
    """Write the delta from a base to a new dump, whose ``lines`` are read twice; whoever has the writer flushes it."""
    places, digest = _compared(base, lines())
    writer.write_line(_header_line(DeltaHeader(base_name, digest)))
    run = first = count = 0
    for line, place in zip(lines(), places.tolist(), strict=True):
        if place >= 0 and place == first + count and count:
            count += 1
            continue
        if count:
            writer.write_line(_same_line(run, first, count))
            run, count = run + 1, 0
        if place >= 0:
            first, count = place, 1
        else:
            # The new dump's first line begins the document no more.
            writer.write_line(line if line == CLOSING else b"," + line[1:])


def applied(base: Iterable[bytes], delta: Iterable[bytes], base_name: str, name: str) -> Iterator[bytes]:
    """Yield the lines of the dump that a delta leads to from its base, which is read to its end.

    Raises `CorruptObjectError` if the delta is of another base, is none, is cut, or does not lead to the dump that it was made of: the last
    of these behind the last line.
    """
    left, changes = iter(base), iter(delta)
    header = _header(next(changes, b""), name)
    if header.base != base_name:
        raise CorruptObjectError(f"it is a delta of {header.base}, and not of {base_name}", key=name)
    digest, start, line = sha256(), b"{", b""
    for line in _lines(left, changes, name):
        made = line
        if start:
            made, start = start + line[1:], b""
        digest.update(made)
        yield made
    if line != CLOSING:
        raise CorruptObjectError("the delta is cut", key=name)
    # Whoever gives the base compares it behind its end.
    deque(left, maxlen=0)
    if digest.hexdigest() != header.digest:
        raise CorruptObjectError("the delta and its base do not give the dump that it was made of", key=name)


def _compared(base: Iterable[bytes], lines: Iterable[bytes]) -> tuple[Int64, str]:
    """Return where in the base each line of a dump is, -1 for none, and the digest of the dump.

    The first line and the last are never taken from the base: they are no lines between others.
    """
    digest = sha256()
    is_inner = bytearray()

    def told() -> Iterator[bytes]:
        for line in lines:
            digest.update(line)
            is_inner.append(line.startswith(b","))
            yield line

    old = digests_of(base)
    places = places_in(old, digests_of(told()))
    places[~np.frombuffer(is_inner, np.bool_)] = -1
    return places, digest.hexdigest()


def _lines(base: Iterator[bytes], delta: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines that a delta names or has, in their order."""
    at = 0
    for line in delta:
        if not line.startswith(_SAME_LINE):
            yield line
            continue
        first, count = _run(line, name)
        if first < at:
            raise CorruptObjectError(f"the delta goes back in its base, from line {at} to line {first}", key=name)
        left = count
        for one in islice(base, first - at, first - at + count):
            yield one
            left -= 1
        if left:
            raise CorruptObjectError(
                f"the delta names {count} lines from line {first} on, and its base ends before", key=name
            )
        at = first + count


def _header_line(header: DeltaHeader) -> bytes:
    told = {"format": _FORMAT, "version": _VERSION, "base": header.base, "digest": header.digest}
    return f'{{"{_HEADER}": {json.dumps(told, separators=(",", ":"))}\n'.encode()


def _header(line: bytes, name: str) -> DeltaHeader:
    try:
        told = json.loads(line + b"}")[_HEADER]
        if (told["format"], told["version"]) != (_FORMAT, _VERSION):
            raise ValueError(f"not the beginning of a {_FORMAT} of version {_VERSION}")
        return DeltaHeader(str(told["base"]), str(told["digest"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptObjectError(f"line 1 is none of a delta: {error}", key=name) from error


def _same_line(number: int, first: int, count: int) -> bytes:
    return f',"{_SAME}{number}": [{first},{count}]\n'.encode()


def _run(line: bytes, name: str) -> tuple[int, int]:
    first, _, count = line.rpartition(b"[")[2].rstrip(b"]\n").partition(b",")
    if not all(one.isdigit() and len(one) <= _MOST_DIGITS for one in (first, count)) or not int(count):
        raise CorruptObjectError(f"a line of the delta names no lines of its base: {line[:80]!r}", key=name)
    return int(first), int(count)
