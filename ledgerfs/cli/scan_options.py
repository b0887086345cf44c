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

    It contains only options that were given; the scan has the defaults.
    """

    @functools.wraps(command)
    def with_scan(**arguments: Any) -> Any:  # noqa: ANN401  (a command's own)
        given = {name: arguments.pop(name) for name in _NAMES}
        return command(scan={name: value for name, value in given.items() if value or value == 0}, **arguments)

    for option in reversed(_OPTIONS):
        with_scan = option(with_scan)
    return with_scan  # type: ignore[return-value]


def parsed_names(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    """Return the names in a text such as ``a,b`` (an option callback); raises `click.BadParameter`."""
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise click.BadParameter(f"{text!r} is not a list of names with commas between them")
    return names


def _private_keys(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, Path]:
    """Return {name: file}. Reject a key itself: other users see the command line."""
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
    """Return a version number, a keyword, or the schema in a file; raises `click.BadParameter`."""
    if text in {"latest", "each"}:
        return text
    return int(text) if text.isascii() and text.isdigit() else _schema_of(text)


def _schema_of(file: str) -> dict[str, Any]:
    try:
        schema = json.loads(local_path(file, "--schema-version").read_bytes())
    except (OSError, ValueError, InvalidOptionError) as error:
        raise click.BadParameter(
            f"{file!r} is not a version number, latest, each, or a file with a schema: {error}"
        ) from error
    if not isinstance(schema, dict):
        raise click.BadParameter(f"{file!r} does not contain an Avro schema as a JSON object")
    return schema


_NOT_HERE = frozenset({"where", "limit", "order", "include_markers", "check_checksums", "threads"})
"""Scan options that no command has, or only some."""

_OPTIONS = (
    click.option(
        "--columns",
        metavar="A,B,…",
        callback=parsed_names,
        help="Columns in this order, such as publish_time,key,value.",
    ),
    click.option(
        "--start",
        "start_time",
        metavar="TIME",
        help="Only messages published from this time on: ISO 8601 (UTC), or -1h, -2d, now, today, yesterday.",
    ),
    click.option("--end", "end_time", metavar="TIME", help="Only messages published before this time."),
    click.option("--key", metavar="KEY", help="Only messages with this key."),
    click.option(
        "--clock-slack-ms",
        type=click.IntRange(min=0),
        metavar="MS",
        help="With --start and --end: how far clocks of brokers and producers may differ; default 600000.",
    ),
    click.option(
        "--transactions",
        type=click.Choice(("committed", "readable", "all")),
        help="committed (default): messages of committed transactions; readable: the same, up to the first open transaction, as Pulsar's "
        "reader (head, count); all: all messages, with their state.",
    ),
    click.option(
        "--on-corrupt",
        type=click.Choice(("raise", "skip")),
        help="Entries that are damaged, too large, or Kafka's: raise stops (default); skip leaves them out, and reports them.",
    ),
    click.option(
        "--on-encrypted",
        type=click.Choice(("raise", "null", "skip")),
        help="Messages without a matching key: raise stops (default); null leaves out the value; skip leaves out the message.",
    ),
    click.option(
        "--private-key",
        "private_keys",
        metavar="NAME=PEMFILE",
        multiple=True,
        callback=_private_keys,
        help="Key for decryption, by its name in Pulsar; may be repeated.",
    ),
    click.option(
        "--max-message-bytes",
        type=click.IntRange(min=1),
        help="Limit of one message after decompression or joining of chunks, in bytes; default 1 GiB.",
    ),
    click.option(
        "--values",
        type=click.Choice(CHOICES["values"]),
        help="bytes: values as they are (default of count and export); typed: columns by the topic's saved schemas (ledgerfs schemas); "
        "json: columns of all fields that occur, which reads values twice; auto (default of the others): typed if a schema is known.",
    ),
    click.option(
        "--schema-version",
        metavar="VERSION",
        callback=_schema_version,
        help="Schema to read values with: latest (default), each (the one that wrote them), a number, or a file with an Avro schema. With "
        "--values json only a file; values are then read once.",
    ),
    click.option(
        "--flatten",
        is_flag=True,
        default=None,
        help="Show each field of values as a column, in place of the column value.",
    ),
    click.option(
        "--on-undecodable",
        type=click.Choice(CHOICES["on_undecodable"]),
        help="Values that do not fit their schema, or whose schema is unknown: raise stops (default, except head); null leaves out the "
        "value; skip leaves out the message.",
    ),
)
_NAMES = tuple(name for name in SCAN_OPTIONS if name not in _NOT_HERE)
