"""Messages on standard output, as text or JSON lines: for all commands that show some."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import click

from ledgerfs.cli.message_text import message_lines
from ledgerfs.cli.output import terminal_width
from ledgerfs.cli.traffic_options import Command

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

_OF_EVERY_MESSAGE = ("ledger_id", "entry_id", "batch_index", "publish_time")
_SHOWN = ("event_time", "key", "key_bytes", "ordering_key", "properties", "value")


def rows_shown_options(command: Command) -> Command:
    """Add the options --full and --json, which `ShownRows.of` accepts."""
    full = click.option(
        "--full", is_flag=True, help="Show long values in full; a terminal gets one line for each value otherwise."
    )
    as_json = click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON object for each message, as in jsonl files."
    )
    return full(as_json(command))


@dataclass(frozen=True, slots=True)
class ShownRows:
    """How to show the messages of a scan.

    Attributes
    ----------
    names
        The columns to scan; None for the default ones.
    shown
        The columns to show of each message, as text.
    as_json, width
        Whether to print JSON instead; the width of a line, None to cut nothing.

    """

    names: tuple[str, ...] | None
    shown: tuple[str, ...]
    as_json: bool
    width: int | None

    @classmethod
    def of(cls, scan: dict[str, Any], *, as_json: bool, full: bool) -> Self:
        """Take the columns out of the options of a scan."""
        columns: tuple[str, ...] | None = scan.pop("columns", None)
        shown = columns or (*_SHOWN, *(("txn_id", "txn_state") if scan.get("transactions") == "all" else ()))
        names = columns if as_json else tuple(dict.fromkeys((*_OF_EVERY_MESSAGE, *shown)))
        return cls(names, shown, as_json, None if full else terminal_width())

    def write(self, batches: "Iterable[pa.RecordBatch]", schema: "pa.Schema") -> None:
        """Print messages."""
        if self.as_json:
            _print_json(batches)
        else:
            _print_text(batches, _with_fields(self.shown, self.names or (), schema.names), width=self.width)


def _with_fields(shown: tuple[str, ...], asked: tuple[str, ...], names: list[str]) -> tuple[str, ...]:
    """Return the columns to show; where fields of values are columns, they replace ``value``."""
    fields = tuple(name for name in names if name not in asked)
    if "value" in names or not fields:
        return tuple(name for name in shown if name in names)
    return tuple(one for name in shown for one in (fields if name == "value" else (name,)))


def _print_json(batches: "Iterable[pa.RecordBatch]") -> None:
    # These import numba and pyarrow, which --help does not need.
    from ledgerfs.messages.text.json_lines import json_lines

    sys.stdout.flush()
    for batch in batches:
        sys.stdout.buffer.write(json_lines(batch))
    sys.stdout.buffer.flush()


def _print_text(batches: "Iterable[pa.RecordBatch]", shown: tuple[str, ...], *, width: int | None) -> None:
    from ledgerfs.scan.python_values import python_rows

    for batch in batches:
        for row in python_rows(_readable(batch)):
            click.echo("\n".join(message_lines(row, shown, width)))


def _readable(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """Return the batch with times and nested typed values as text."""
    import pyarrow as pa

    from ledgerfs.messages.decode.table_schema import is_message_column
    from ledgerfs.messages.text.json_lines import is_bytes, plain_texts

    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        # Producers write times before the year 1 and after 9999, which Python cannot represent.
        is_kept = (is_message_column(field) and not pa.types.is_timestamp(field.type)) or is_bytes(field.type)
        texts = None if is_kept else plain_texts(field.name, column)
        columns.append(column if texts is None else texts)
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)
