"""The options of all commands that read messages, as arguments of `Topic.scan`."""

import functools
import json
from pathlib import Path
from typing import Any

import click

from ledgerfs.cli.traffic_options import Command
from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.local_paths import local_path
from ledgerfs.scan.options import CHOICES, SCAN_OPTIONS


def scan_options(command: Command) -> Command:
    """Add the options of a scan; the command gets the keyword arguments for `Topic.scan` as one dictionary ``scan``.

    Only given options are in it, so that the defaults are those of the scan.
    """

    @functools.wraps(command)
    def with_scan(**arguments: Any) -> Any:  # noqa: ANN401  (a command's own)
        given = {name: arguments.pop(name) for name in _NAMES}
        return command(scan={name: value for name, value in given.items() if value or value == 0}, **arguments)

    for option in reversed(_OPTIONS):
        with_scan = option(with_scan)
    return with_scan  # type: ignore[return-value]


def parsed_names(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    """Return the names of a text such as ``a,b``, as the callback of an option; raises `click.BadParameter`."""
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise click.BadParameter(f"{text!r} is not a list of names with commas between them")
    return names


def _private_keys(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, Path]:
    """Return {name: file}; a key itself must not be on a command line, where other users see it."""
    keys = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not NAME=PEMFILE")
        try:
            keys[name] = local_path(file, name)
        except InvalidOptionError as error:
            raise click.BadParameter(str(error)) from error
        if not keys[name].is_file():
            raise click.BadParameter(f"there is no file {file!r}")
    return keys


def _schema_version(_: click.Context, __: click.Parameter, text: str | None) -> int | str | dict[str, Any] | None:
    return None if text is None else schema_version_of(text)


def schema_version_of(text: str) -> int | str | dict[str, Any]:
    """Return the number of a version, a word, or the schema of a file; raises `click.BadParameter`."""
    if text in {"latest", "each"}:
        return text
    return int(text) if text.isascii() and text.isdigit() else _schema_of(text)


def _schema_of(file: str) -> dict[str, Any]:
    try:
        schema = json.loads(local_path(file, "--schema-version").read_bytes())
    except (OSError, ValueError, InvalidOptionError) as error:
        raise click.BadParameter(
            f"{file!r} is no number, not latest or each, and no file with a schema: {error}"
        ) from error
    if not isinstance(schema, dict):
        raise click.BadParameter(f"{file!r} has no Avro schema that is an object")
    return schema


_NOT_HERE = frozenset({"where", "limit", "order", "include_markers", "check_checksums", "threads"})
"""Options of scans that commands do not have, or only some."""

_OPTIONS = (
    click.option(
        "--columns",
        metavar="A,B,…",
        callback=parsed_names,
        help="Columns, in this order; see docs/reference/messages.md.",
    ),
    click.option(
        "--start",
        "start_time",
        metavar="TIME",
        help="Messages published from here on: ISO 8601 (UTC), or -1h, -2d, now, today, yesterday.",
    ),
    click.option("--end", "end_time", metavar="TIME", help="Messages published before this, as --start."),
    click.option("--key", metavar="KEY", help="Messages with this key only."),
    click.option(
        "--clock-slack-ms",
        type=click.IntRange(min=0),
        metavar="MS",
        help="How far clocks may differ, with --start and --end; ten minutes if not given.",
    ),
    click.option(
        "--transactions",
        type=click.Choice(("committed", "readable", "all")),
        help="Messages of committed transactions only (default); the same, but as Pulsar's reader up to the first open one (head, count); "
        "or all, with their state.",
    ),
    click.option(
        "--on-corrupt",
        type=click.Choice(("raise", "skip")),
        help="What to do about entries that are damaged, too large, or Kafka's: end (default), or leave them out and say so.",
    ),
    click.option(
        "--on-encrypted",
        type=click.Choice(("raise", "null", "skip")),
        help="What to do about messages without a given key: end (default), leave out the value, or the message.",
    ),
    click.option(
        "--private-key",
        "private_keys",
        metavar="NAME=PEMFILE",
        multiple=True,
        callback=_private_keys,
        help="A key to decrypt with, by the name it has in Pulsar; may be repeated.",
    ),
    click.option(
        "--max-message-bytes",
        type=click.IntRange(min=1),
        help="The largest message to decompress, or to join of chunks, in bytes; 1 GiB if not given.",
    ),
    click.option(
        "--values",
        type=click.Choice(CHOICES["values"]),
        help="Values as they are (default, but for head); typed: as columns by the topic's saved schemas (ledgerfs schemas); json: as "
        "columns of whatever fields all of them have, which reads them twice; or auto: typed where a schema is known.",
    ),
    click.option(
        "--schema-version",
        metavar="VERSION",
        callback=_schema_version,
        help="As what values are read: latest (default), a number, a file with an Avro schema, or each: as they were written. For json "
        "only a file, with which they are read once.",
    ),
    click.option(
        "--flatten",
        is_flag=True,
        default=None,
        help="The fields of values as columns beside the others, without `value`.",
    ),
    click.option(
        "--on-undecodable",
        type=click.Choice(CHOICES["on_undecodable"]),
        help="What to do about values that contradict their schema, or whose schema is not known: end (default, but for head), leave "
        "out the value, or the message.",
    ),
)
_NAMES = tuple(name for name in SCAN_OPTIONS if name not in _NOT_HERE)
