"""One saved version of a topic's schema: a separate object, written once and never changed (``docs/guides/schemas.md``).

Its name has the version and a digest of its content: two writers of the same version write the same object, and a version number that is
used again after a forced deletion becomes another object beside the first. A version that rows were written with has one name, whatever its
content: of two writers with different schemas under one number, only one can save its schema.
"""

import base64
import hashlib
import json
import re
from typing import Any

from ledgerfs.errors import CorruptSchemaFileError, InvalidOptionError, UnsupportedFormatError
from ledgerfs.formats.schemas.schema_info import ANY_VERSION, LARGEST_VERSION, SchemaInfo, SchemaVersion
from ledgerfs.formats.topic_names import ManagedLedgerName

FOLDER = "_ledgerfs/schemas/"
"""Folder of a bucket that contains the saved schemas of its topics."""
MAX_SAVED_BYTES = 32 << 20
"""No schema is larger: Pulsar stores each in an entry of BookKeeper."""

_FORMAT = "ledgerfs schema"
_FORMAT_VERSION = 1
_NAME = re.compile(r"(any|0|[1-9][0-9]{0,18})-([0-9a-f]{32})\.json\Z", re.ASCII)
_LONGEST_NAME = 200
_SHORT_NAME = 150


def is_saved_schema(key: str) -> bool:
    """Whether a key of a bucket is that of a saved schema."""
    return key.startswith(FOLDER) and _NAME.match(key.rpartition("/")[2]) is not None


def is_schemas_folder(key: str) -> bool:
    """Whether a key, which ends with ``/``, is a folder for saved schemas only."""
    return key.endswith("/") and (FOLDER.startswith(key) or key.startswith(FOLDER))


def is_saved_name(name: str) -> bool:
    """Whether a name in a topic's folder is that of a saved schema."""
    return _NAME.match(name) is not None


def topic_folder(owner: ManagedLedgerName) -> str:
    """Return the folder of a topic's schemas, with ``/`` at its end: tenant, namespace, encoded name.

    Components that are too long for file systems are cut, and end with a digest of the whole.
    """
    return "".join(f"{_fitting(component)}/" for component in owner.directory)


def saved_name(topic: str, version: SchemaVersion) -> str:
    """Return the name of the object for one version of a topic, without its folder."""
    number = "any" if version.version < 0 else str(version.version)
    return f"{number}-{_digest(topic, version)}.json"


def dump_schema(topic: str, version: SchemaVersion) -> bytes:
    """Return the object for one version of a topic, named as ``persistent://…``.

    Raises `InvalidOptionError` for a version that could not be read again: its number is not valid in a message, or it is too large.
    """
    if not (0 <= version.version <= LARGEST_VERSION or (version.version == ANY_VERSION and version.is_by_hand)):
        reason = f"expected a version number from 0 to {LARGEST_VERSION}"
        raise InvalidOptionError(reason, key=f"schema version {version.version}")
    if version.schema.unreadable:
        raise InvalidOptionError(
            f"cannot be saved: {version.schema.unreadable}", key=f"schema version {version.version}"
        )
    document: dict[str, Any] = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "topic": topic,
        "version": version.version,
        "type": version.schema.type,
        "registered_ms": version.timestamp_ms,
        "deletion": version.is_deletion,
        "properties": dict(sorted(version.schema.properties.items())),
        **_data_fields(version.schema.data),
        "source": version.source,
        "saved_ms": version.saved_ms,
    }
    data = json.dumps(document, indent=1).encode() + b"\n"
    key = saved_name(topic, version)
    if len(data) > MAX_SAVED_BYTES:
        raise InvalidOptionError(f"has {len(data)} bytes; a schema has at most {MAX_SAVED_BYTES}", key=key)
    try:
        is_readable = parse_schema(data, key) == (topic, version)
    except CorruptSchemaFileError:
        is_readable = False
    if not is_readable:
        raise InvalidOptionError("has a type, property, time or source that cannot be saved", key=key)
    return data


def parse_schema(data: bytes, key: str) -> tuple[str, SchemaVersion]:
    """Return the topic and the version of an object.

    Raises `CorruptSchemaFileError` for bytes that do not match the object's name, and `UnsupportedFormatError` for those of a newer
    ledgerfs.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise _corrupt("is not JSON: it is truncated or damaged, or ledgerfs did not write it", key) from None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise _corrupt("was not written by ledgerfs", key)
    if document.get("format_version") != _FORMAT_VERSION:
        reason = f"the schema was saved in format {document.get('format_version')!r}; this version of ledgerfs reads {_FORMAT_VERSION}"
        raise UnsupportedFormatError(reason, key=key)
    topic, version = _version_of(document, key)
    if key.rpartition("/")[2] != saved_name(topic, version):
        raise _corrupt("does not match its name: it was changed, or copied under another name", key)
    return topic, version


def _version_of(document: dict[str, Any], key: str) -> tuple[str, SchemaVersion]:
    def taken(name: str, *kinds: type) -> Any:  # noqa: ANN401  (JSON)
        value = document.get(name)
        is_too_large = isinstance(value, int) and abs(value) > LARGEST_VERSION
        if type(value) not in kinds or is_too_large:
            raise _corrupt(f"has no valid {name!r}", key)
        return value

    properties = taken("properties", dict)
    if not all(isinstance(text, str) for text in properties.values()):
        raise _corrupt("has no valid 'properties'", key)
    try:
        data = (
            base64.b64decode(taken("data_base64", str), validate=True)
            if "data" not in document
            else taken("data", str).encode()
        )
    except ValueError:
        raise _corrupt("has no valid data of the schema", key) from None
    return taken("topic", str), SchemaVersion(
        taken("version", int),
        SchemaInfo(taken("type", str), data, properties),
        taken("registered_ms", int, type(None)),
        taken("deletion", bool),
        taken("source", str),
        taken("saved_ms", int, type(None)),
    )


def _data_fields(data: bytes) -> dict[str, str]:
    """Return the data as readable text if it is UTF-8, otherwise in base64."""
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(data).decode()}


def _digest(topic: str, version: SchemaVersion) -> str:
    """Return the digest of a version's content; its save time counts only for a version by hand, of which the latest wins."""
    if version.is_by_import:
        return _sha256([topic, version.version, version.source])
    said = [
        topic,
        version.version,
        version.schema.type,
        base64.b64encode(version.schema.data).decode(),
        dict(version.schema.properties),
        version.timestamp_ms,
        version.is_deletion,
        version.saved_ms if version.is_by_hand else None,
        version.is_by_hand,
    ]
    return _sha256(said)


def _sha256(said: list[Any]) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def _fitting(component: str) -> str:
    if len(component) <= _LONGEST_NAME:
        return component
    return f"{component[:_SHORT_NAME]}~{hashlib.sha256(component.encode()).hexdigest()[:32]}"


def _corrupt(reason: str, key: str) -> CorruptSchemaFileError:
    return CorruptSchemaFileError(f"{reason}. Remove this object, and save the schemas again", key=key)
