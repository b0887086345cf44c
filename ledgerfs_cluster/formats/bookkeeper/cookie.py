"""The ``VERSION`` file in a bookie's folders, by which it knows them as its own: its cookie (``docs/formats/entry-logs.md``).

The first line has the version of the layout, the others are what Protobuf prints as text: ``name: "value"`` each. Read by lines, so that
fields of later versions are passed over.
"""

import re
from dataclasses import dataclass

from ledgerfs.errors import CorruptMetadataError

MOST_COOKIE_BYTES = 64 << 10
_OLDEST_LAYOUT = 4
_LAYOUT = re.compile(rb"\s*(\d{1,9})\s*")
_FIELD = re.compile(rb'\s*(\w+)\s*:\s*(?:"((?:[^"\\]|\\[0-7abfnrtv"\'\\?])*)"|[\w.+-]+)\s*')
_ESCAPE = re.compile(rb"\\([0-3]?[0-7]{1,2}|.)")
_ESCAPED = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))


@dataclass(frozen=True, slots=True)
class Cookie:
    """Whose folder it is.

    Attributes
    ----------
    bookie_id
        As ensembles name the bookie: ``host:port``, unless it was given a name.
    instance_id
        The cluster's; None if the bookie was started without one.

    """

    bookie_id: str
    instance_id: str | None


def parse_cookie(data: bytes, *, key: str) -> Cookie:
    """Parse a file whose name is ``key``.

    Raises `CorruptMetadataError` for what is no cookie, is larger than 64 KiB, or has a layout older than 4.
    """
    if len(data) > MOST_COOKIE_BYTES:
        raise CorruptMetadataError(f"{len(data)} bytes are more than a cookie has", key=key)
    first, *lines = data.split(b"\n")
    layout = _LAYOUT.fullmatch(first)
    if not layout or int(layout[1]) < _OLDEST_LAYOUT:
        raise CorruptMetadataError(f"a cookie of layout {first[:40]!r} is not known", key=key, offset=0)
    fields: dict[bytes, str] = {}
    at = len(first) + 1
    for line in lines:
        if line.strip():
            name, value = _field(line, at, key)
            if name in fields:
                raise CorruptMetadataError(f"a cookie that has {name.decode()[:40]} twice", key=key, offset=at)
            fields[name] = value
        at += len(line) + 1
    bookie_id = fields.get(b"bookieHost", "")
    if not bookie_id.isprintable() or not bookie_id or " " in bookie_id or "/" in bookie_id:
        raise CorruptMetadataError(f"a cookie of a bookie {bookie_id[:40]!r}", key=key)
    return Cookie(bookie_id, fields.get(b"instanceId") or None)


def _field(line: bytes, at: int, key: str) -> tuple[bytes, str]:
    """Return a line's name, and its value: empty if it is none in quotes."""
    found = _FIELD.fullmatch(line)
    if not found:
        raise CorruptMetadataError(f"{line[:40]!r} is no field of a cookie", key=key, offset=at)
    quoted = line[line.index(b'"') + 1 : line.rindex(b'"')] if b'"' in line else b""
    try:
        return found[1], _ESCAPE.sub(_plain, quoted).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptMetadataError(f"a cookie whose {found[1].decode()[:40]} is no text", key=key, offset=at) from error


def _plain(escape: re.Match[bytes]) -> bytes:
    code = escape[1]
    return bytes([int(code, 8) if code[0] in b"01234567" else _ESCAPED.get(code[0], code[0])])
