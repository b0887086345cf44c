"""``ledgerfs schemas set``: set a schema by hand."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.options import bucket_argument, json_option, parsed_texts
from ledgerfs.cli.output import print_json, say
from ledgerfs.cli.parameter_types import LocalPath
from ledgerfs.cli.schemas.places import place_option, saved_at
from ledgerfs.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion


@command("set")
@bucket_argument
@click.argument("topic")
@click.argument("file", metavar="[FILE]", type=LocalPath(), required=False)
@click.option(
    "--type",
    "kind",
    metavar="TYPE",
    help="Type of the schema: avro, json, protobuf_native, string, int64, ….  [default: by FILE]",
)
@click.option("--message", metavar="NAME", help="Full name of the message in FILE, for Protobuf.")
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="Property of the schema, such as __charset=UTF-16; may be repeated.",
)
@click.option(
    "--key",
    metavar="TYPE|FILE",
    help="For key-value schemas: type of the key, or an .avsc file; other options are those of the value.",
)
@click.option(
    "--separated", is_flag=True, help="For key-value schemas: the key is the message's key, not in the payload."
)
@click.option(
    "--version",
    "number",
    type=click.IntRange(0, 2**63 - 1),
    help="Version of the schema.  [default: all that are not saved]",
)
@click.option(
    "--registered",
    metavar="TIME",
    help="Time since when the version has this schema, if it had another one before or after.",
)
@click.option("--take-back", is_flag=True, help="Remove the schema that was set by hand for this version.")
@place_option("--to", "Save it at this URL instead of in the bucket's folder _ledgerfs/schemas.")
@json_option
@click.pass_context
def set_schema(
    context: click.Context, /, *, bucket: "Bucket", topic: str, place: tuple[str, dict[str, Any]] | None, as_json: bool, number: int | None,
    registered: str | None, take_back: bool, **given: Any,  # noqa: ANN401  (click's)
) -> None:  # fmt: skip
    """Set the schema of a topic by a file or a type.

    FILE is an Avro schema (.avsc) for AVRO and, with --type json, JSON; for Protobuf a set of descriptors (protoc --include_imports
    --descriptor_set_out=orders.desc) or, if protoc is installed, a .proto file. Other types need no file.

    Without --version the schema applies to messages without a version, and to those whose version is not saved. With --version it
    replaces the saved one, which is not deleted. The schema that was set last counts.

    Exit code 1: the schema was saved, but another schema that was set by hand is used.

    \b
    Examples:
      ledgerfs schemas set s3://tier public/default/orders orders.avsc
      ledgerfs schemas set s3://tier public/default/orders orders.desc --message shop.Order --version 0
      ledgerfs schemas set s3://tier public/default/counts --type int64
      ledgerfs schemas set s3://tier public/default/pairs orders.avsc --key int32
      ledgerfs schemas set s3://tier public/default/orders --version 0 --take-back
    """
    # These import numpy and fsspec, which --help does not need.
    from ledgerfs.catalog.time_arguments import milliseconds_of
    from ledgerfs.cli.schemas import versions
    from ledgerfs.formats.schemas.schema_info import ANY_VERSION, BY_HAND, SchemaInfo, SchemaVersion
    from ledgerfs.formats.schemas.schema_versions import is_in_effect, next_word_ms
    from ledgerfs.formats.topic_names import schema_owner

    if registered is not None and number is None:
        raise InvalidOptionError("needs --version: the time belongs to one version", key="--registered")
    schema = SchemaInfo("NONE") if take_back else _schema(given)
    if take_back and any(given.values()):
        raise InvalidOptionError("removes a schema; leave out the options of a new one", key="--take-back")
    number = ANY_VERSION if number is None else number
    given_for = milliseconds_of(registered)
    name = schema_owner(bucket.topic(topic).name).topic
    saved = saved_at(bucket, place, make=not take_back)
    known = saved.versions(name)
    when = next_word_ms(known, number, int(time.time() * 1000))
    version = SchemaVersion(number, schema, given_for, is_deletion=take_back, source=BY_HAND, saved_ms=when)
    if take_back:
        _require_given(known, version)
    saved.add(name, [version])
    known = saved.versions(name)
    if as_json:
        print_json(versions.as_json(name, version, known))
    else:
        what = "all messages without another schema" if number == ANY_VERSION else f"version {number}"
        say(f"{name}: {what}: {versions.kind_of(version)}, saved at {saved.source}")
    if not is_in_effect(version, known):
        say(f"{name}: not in effect: {_why_not(known, version)}")
        context.exit(1)


def _require_given(known: "Sequence[SchemaVersion]", taken_back: "SchemaVersion") -> None:
    """Raise `InvalidOptionError` if no schema was set by hand for that version and time."""
    from ledgerfs.formats.schemas.schema_versions import last_word

    of_it = (taken_back.version, taken_back.timestamp_ms)
    if last_word([one for one in known if one.is_by_hand and (one.version, one.timestamp_ms) == of_it]) is None:
        reason = (
            "no schema was set by hand for this --version and --registered; `ledgerfs schemas ls` lists the schemas"
        )
        raise InvalidOptionError(reason, key="--take-back")


def _why_not(known: "Sequence[SchemaVersion]", version: "SchemaVersion") -> str:
    """Return why the schema that was just saved is not in effect."""
    from ledgerfs.catalog.time_arguments import iso_time
    from ledgerfs.cli.schemas.versions import kind_of
    from ledgerfs.formats.schemas.schema_versions import is_in_effect

    for one in known:
        if one.is_by_hand and one.version == version.version and is_in_effect(one, known):
            if one.timestamp_ms != version.timestamp_ms:
                return f"{kind_of(one)} was set by hand for all times of this version; remove that schema first (--take-back)"
            return f"another user has set {kind_of(one)} ({iso_time(one.saved_ms)}); run the command again if your schema is right"
    return "it is no longer among the saved schemas; was it removed?"


def _schema(given: dict[str, Any]) -> "SchemaInfo":
    from ledgerfs.schemas.by_hand import PLAIN_TYPES, key_value_by_hand, schema_by_hand

    value = schema_by_hand(given["kind"], given["file"], given["message"], parsed_texts(given["properties"]))
    if given["key"] is None:
        if given["separated"]:
            raise InvalidOptionError("needs --key: only key-value schemas have separate keys", key="--separated")
        return value
    is_plain = given["key"].upper() in PLAIN_TYPES
    if not is_plain and not Path(given["key"]).exists():
        reason = f"neither a file nor a type without a file; these types are {', '.join(map(str.lower, PLAIN_TYPES))}"
        raise InvalidOptionError(reason, key=f"--key {given['key']}")
    key = schema_by_hand(given["key"]) if is_plain else schema_by_hand(None, Path(given["key"]))
    return key_value_by_hand(key, value, is_separated=given["separated"])
