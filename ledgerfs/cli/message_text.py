"""A message as readable lines: its id and time, then a line for each field."""

from collections.abc import Sequence
from typing import Any

from ledgerfs.display import human_size, printable

_INDENT = "  "


def message_lines(row: dict[str, Any], names: Sequence[str], width: int | None = None) -> list[str]:
    """Return the lines of one message; bytes that are not UTF-8, or would control a terminal, are escaped.

    Parameters
    ----------
    row
        Values of the message table: ``ledger_id``, ``entry_id``, ``batch_index``, ``publish_time``, and all of ``names``; times
        are texts.
    names
        Columns to show, one line each. Null columns are omitted, except a null ``value`` (a tombstone).
    width
        Cut lines to this many characters and append the length of the value; None: do not cut.

    """
    index = "" if row["batch_index"] is None else f":{row['batch_index']}"
    lines = [f"{row['ledger_id']}:{row['entry_id']}{index}  {row['publish_time'] or '-'}"]
    label = max((len(name) for name in names), default=0)
    for name in names:
        value = row[name]
        if name == "value" or value not in (None, []):
            front = f"{_INDENT}{name:{label}}{_INDENT}"
            lines.append(front + _text(value, None if width is None else max(1, width - len(front))))
    return lines


def _text(value: Any, room: int | None) -> str:  # noqa: ANN401  (a column value)
    if value is None:
        return "(null)"
    if isinstance(value, bytes):
        return _fit(_of_bytes(value, room), room, human_size(len(value)))
    if isinstance(value, list):
        return _fit(
            ", ".join(f"{printable(name)}={printable(text)}" for name, text in value), room, f"{len(value)} of them"
        )
    text = printable(str(value))
    return _fit(text, room, f"{len(text)} characters")


def _of_bytes(value: bytes, room: int | None) -> str:
    """Return bytes as text. Decode at most four bytes for each character of ``room``, the longest UTF-8 sequence."""
    shown = value if room is None else value[: 4 * room + 4]
    return printable(shown.decode("utf-8", "backslashreplace"))


def _fit(text: str, room: int | None, size: str) -> str:
    if room is None or len(text) <= room:
        return text
    note = f"… ({size}; --full)"
    return text[: max(1, room - len(note))] + note
