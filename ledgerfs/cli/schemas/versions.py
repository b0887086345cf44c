"""Saved schema versions as text and JSON."""

from collections.abc import Sequence
from typing import Any

from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.display import printable
from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.described import fields_of
from ledgerfs.formats.schemas.schema_info import ANY_VERSION, SchemaVersion
from ledgerfs.formats.schemas.schema_versions import is_in_effect


def number_of(version: SchemaVersion) -> str:
    """Return the version number as text."""
    return "any" if version.version == ANY_VERSION else str(version.version)


def kind_among(version: SchemaVersion, known: Sequence[SchemaVersion]) -> str:
    """Return its type, and whether a schema set by hand overrides it; ``known`` is all saved versions of the topic."""
    return kind_of(version) + ("" if is_in_effect(version, known) else " (overridden)")


def kind_of(version: SchemaVersion) -> str:
    """Return its type; a deletion marker has none."""
    if version.is_deletion:
        return "(taken back)" if version.is_by_hand else "(deleted)"
    if version.schema.unreadable:
        return "(lost)"
    return version.schema.type


def fields_text(version: SchemaVersion, most: int) -> str:
    """Return its fields in one line of ``most`` characters, with their number if not all fit.

    For a damaged schema, return the error.
    """
    try:
        fields = fields_of(version.schema)
    except InvalidSchemaError as error:
        return printable(f"not readable: {error}")
    text = printable(", ".join(fields))
    if len(text) <= most:
        return text
    # The fields of a pair are key and value, which contain all other fields.
    end = "…" if version.schema.type == "KEY_VALUE" else f"… ({len(fields):,} fields)"
    begin = text[: max(most - len(end) - 2, 0)]
    whole = begin.rpartition(", ")[0]
    return f"{whole}, {end}" if whole else begin + end


def as_json(topic: str, version: SchemaVersion, known: Sequence[SchemaVersion]) -> dict[str, Any]:
    """Return it as JSON values, without its definition; ``known`` is all saved versions of the topic."""
    try:
        fields: list[str] | None = fields_of(version.schema)
    except InvalidSchemaError:
        fields = None
    return {
        "topic": topic,
        "version": None if version.version == ANY_VERSION else version.version,
        "type": None if version.is_deletion or version.schema.unreadable else version.schema.type,
        "deletion": version.is_deletion,
        "lost": version.schema.unreadable or None,
        "registered": iso_time(version.timestamp_ms),
        "in_effect": is_in_effect(version, known),
        "fields": fields,
        "source": version.source,
        "saved": iso_time(version.saved_ms),
    }
