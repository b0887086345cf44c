"""``ledgerfs schemas show``: show the definition of a schema."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.options import bucket_argument, json_option
from ledgerfs.cli.output import minute, print_json, say
from ledgerfs.cli.schemas.places import known_at, place_option
from ledgerfs.display import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.formats.schemas.schema_info import SchemaVersion


@command()
@bucket_argument
@click.argument("topic")
@click.option("--version", "number", type=click.IntRange(min=0), help="Version to show.  [default: the newest]")
@place_option("--from", "Place of the saved schemas, if not the bucket's own folder.")
@json_option
def show(
    *, bucket: "Bucket", topic: str, number: int | None, place: tuple[str, dict[str, Any]] | None, as_json: bool
) -> None:
    """Show the definition of a topic's schema.

    Shows the newest version, unless --version selects another one. Standard output contains only the definition, for other tools;
    for Avro and JSON this is the Avro schema. If a version was registered again after a forced deletion, shows all, oldest first.

    \b
    Examples:
      ledgerfs schemas show s3://tier public/default/orders > orders.avsc
      ledgerfs schemas show s3://tier public/default/orders --version 0 --json
    """
    # These import numpy and fsspec, which --help does not need.
    from ledgerfs.cli.schemas import versions
    from ledgerfs.errors import UnknownSchemaError
    from ledgerfs.formats.schemas.described import definition_of
    from ledgerfs.formats.schemas.schema_versions import TopicSchemas
    from ledgerfs.formats.topic_names import schema_owner

    name = schema_owner(topic).topic
    place_of_schemas = known_at(bucket, place)
    everything = place_of_schemas.versions(name)
    known = TopicSchemas.of(everything)
    latest = known.latest
    found = ([] if latest is None else [latest]) if number is None else known.numbered(number)
    if not found:
        place_of_schemas.require_place()
        is_saved = place is not None or not bucket.source.keeps_schemas
        raise UnknownSchemaError(_why_none(known.versions, number, is_saved=is_saved), key=name)
    for one in found:
        if one.schema.unreadable:
            raise UnknownSchemaError(one.schema.unreadable, key=name)
    if as_json:
        print_json(
            [
                {**versions.as_json(name, one, everything), **_more(one), "definition": definition_of(one.schema)}
                for one in found
            ]
        )
        return
    for one in found:
        say(
            f"{name}: version {versions.number_of(one)}, {one.schema.type}, registered {minute(one.timestamp_ms)}, {one.source}"
        )
        definition = definition_of(one.schema)
        if isinstance(definition, dict) and "files" in definition:
            click.echo("\n".join(map(printable, definition["files"].splitlines())))
        elif definition is not None:
            print_json(definition)


def _why_none(known: "Sequence[SchemaVersion]", number: int | None, *, is_saved: bool) -> str:
    """Return the reason why no version is shown."""
    from ledgerfs.formats.schemas.schema_info import ANY_VERSION

    numbers = sorted({one.version for one in known if not one.is_deletion})
    if not numbers:
        hint = "`ledgerfs schemas ls` lists the topics with schemas"
        if not is_saved:
            return f"the cluster has no schema of this topic; {hint}"
        return f"no schema is saved; {hint}, `ledgerfs schemas save` saves them while the cluster is running"
    known_numbers = ", ".join("one for any version" if one == ANY_VERSION else str(one) for one in numbers)
    return f"version {number} is not {'saved' if is_saved else 'in the cluster'}; there are {known_numbers}"


def _more(version: "SchemaVersion") -> dict[str, Any]:
    try:
        data: str | None = version.schema.data.decode()
    except UnicodeDecodeError:
        data = None
    return {"properties": dict(version.schema.properties), "data": data}
