"""``ledgerfs schemas ls``: list saved schema versions."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.options import bucket_argument, json_option
from ledgerfs.cli.output import minute, print_json, say, show, table, terminal_width
from ledgerfs.cli.schemas.places import known_at, place_option
from ledgerfs.display import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.bucket.known_schemas import KnownSchemas, OnDamage
    from ledgerfs.errors import LedgerfsError
    from ledgerfs.formats.schemas.schema_info import SchemaVersion
    from ledgerfs.schemas.saved_schemas import SavedSchemas

_COLUMNS = ("topic", "version", "type", "registered", "fields", "source")
_FIELDS = 100
"""Characters of fields in a line that is not on a terminal; --json prints all fields."""
_LEAST_FIELDS = 30
"""Characters of fields on a terminal that the other columns fill."""
_BETWEEN = 2
"""Spaces between columns."""


@command()
@bucket_argument
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@place_option("--from", "Place of the saved schemas, if not the bucket's own folder.")
@json_option
@click.pass_context
def ls(
    context: click.Context,
    /,
    *,
    bucket: "Bucket",
    topics: tuple[str, ...],
    place: tuple[str, dict[str, Any]] | None,
    as_json: bool,
) -> None:
    """List the saved schema versions of topics.

    Lists version, type, time of registration (UTC), fields and source; all topics if none is named. For a live cluster it lists the
    cluster's own versions, also deleted ones, except after a forced deletion.

    "(lost)": no bookie has the definition. "any": a schema that was set by hand for messages without a saved version.
    "(overridden)": a schema set by hand later is used instead. A version that is listed twice was registered again after a forced
    deletion; the publish time of a message decides.

    Exit code 1: the schemas of some topics are damaged. These topics are reported, the others listed.

    \b
    Examples:
      ledgerfs schemas ls s3://tier
      ledgerfs schemas ls s3://tier public/default/orders --json
      ledgerfs schemas ls s3://tier --from /backup/schemas
      ledgerfs schemas ls pulsar+zk://zk1:2181,zk2:2181
    """
    # These import numpy and fsspec, which --help does not need.
    from ledgerfs.cli.schemas import versions
    from ledgerfs.formats.topic_names import schema_owner

    known = known_at(bucket, place)
    wanted = [schema_owner(topic).topic for topic in topics]
    damaged: dict[str, LedgerfsError] = {}
    found = _found(known, wanted, damaged.__setitem__)
    if not any(found.values()):
        known.require_place()
    if as_json:
        print_json([versions.as_json(name, one, of_it) for name, of_it in found.items() for one in of_it])
    elif any(found.values()):
        _show_table(found)
    are_saved = "saved" if place is not None or not bucket.source.keeps_schemas else "in the cluster"
    for name in [name for name, of_it in found.items() if not of_it]:
        say(f"{name}: no schema is {are_saved}")
    if not (found or damaged):
        say(f"{known.source}: no schemas are {are_saved}")
    for name, error in damaged.items():
        say(f"{name}: left out: {error}")
    if damaged:
        context.exit(1)


def _found(
    known: "SavedSchemas | KnownSchemas", topics: "Sequence[str]", on_damage: "OnDamage"
) -> "dict[str, tuple[SchemaVersion, ...]]":
    # This imports numpy, which --help does not need.
    from ledgerfs.bucket.known_schemas import KnownSchemas

    if isinstance(known, KnownSchemas):
        return known.versions_of(topics, on_damage) if topics else known.all_versions(on_damage)
    return {name: known.versions(name) for name in topics} if topics else known.all_versions()


def _show_table(found: "Mapping[str, Sequence[SchemaVersion]]") -> None:
    """Print a line for each version, with as many fields as fit."""
    # This imports the schema readers, which --help does not need.
    from ledgerfs.cli.schemas.versions import fields_text

    listed = [(name, one) for name, known in found.items() for one in known]
    rows = [_cells(name, one, found[name]) for name, one in listed]
    width, most = terminal_width(), _FIELDS
    if width is not None:
        taken = [max(map(len, column)) for column in zip(_COLUMNS, *rows, strict=True)]
        most = max(width - sum(taken) + len("fields") - _BETWEEN * (len(taken) - 1), _LEAST_FIELDS)
    shown = table(*_COLUMNS, right=("version",))
    for row, (_, one) in zip(rows, listed, strict=True):
        row[_COLUMNS.index("fields")] = fields_text(one, most)
        shown.add_row(*row)
    show(shown)


def _cells(topic: str, version: "SchemaVersion", known: "Sequence[SchemaVersion]") -> list[str]:
    """Return the cells of a line, without the fields."""
    from ledgerfs.cli.schemas.versions import kind_among, number_of

    cells = (topic, number_of(version), kind_among(version, known), minute(version.timestamp_ms), "", version.source)
    return [printable(cell) for cell in cells]
