"""Read schemas that users set by hand: a file with a definition, or the name of a type that needs none."""

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from ledgerfs.errors import InvalidOptionError, InvalidSchemaError
from ledgerfs.formats.schemas.avro_schema import parse_avro_schema
from ledgerfs.formats.schemas.protobuf_files import native_schema_data
from ledgerfs.formats.schemas.saved_schema import MAX_SAVED_BYTES
from ledgerfs.formats.schemas.schema_info import TYPE_NUMBERS, SchemaInfo, key_value_schema, require_charset

DEFINED_TYPES = ("AVRO", "JSON", "PROTOBUF_NATIVE")
"""Types that need a file."""
PLAIN_TYPES = tuple(sorted(set(TYPE_NUMBERS) - {*DEFINED_TYPES, "NONE", "PROTOBUF", "KEY_VALUE"}))
"""Types that need none."""
_INSTEAD = {
    "KEY_VALUE": "pass the type of the value to `ledgerfs schemas set`, and the type of the key with --key",
    "NONE": "values without a schema are bytes anyway",
    "PROTOBUF": "use protobuf_native, which reads the same payloads",
}
"""The alternative for each unsupported type of Pulsar's."""
_PROTOBUF_SUFFIXES = frozenset({".desc", ".pb", ".protoset", ".proto"})
_PROTOC_SECONDS = 60
_LOGGED = re.compile(r"[IW]\d{4} |WARNING: All log messages")


def schema_by_hand(
    kind: str | None, file: Path | None = None, message: str | None = None, properties: Mapping[str, str] | None = None
) -> SchemaInfo:
    """Return a schema of a type of Pulsar's, defined by a file if the type needs one.

    Parameters
    ----------
    kind
        The type's name; None for the type of the file's suffix: AVRO for ``.avsc``, PROTOBUF_NATIVE for ``.desc`` and ``.proto``.
    file
        For AVRO and JSON an Avro schema; for PROTOBUF_NATIVE a set of descriptors, or a ``.proto`` file, which needs protoc.
    message
        Full name of the message in the descriptors.
    properties
        Of the schema, such as ``__charset``.

    Raises
    ------
    InvalidOptionError
        The type is unknown, or needs a file, or does not accept one; the file cannot be read.
    InvalidSchemaError
        The file is not such a definition.

    """
    name = _type_of(kind, file)
    texts = dict(properties or {})
    if name in PLAIN_TYPES:
        if file is not None or message is not None:
            raise InvalidOptionError("needs no file and no message; leave them out", key=f"type {name}")
        return _sound(SchemaInfo(name, b"", texts))
    if file is None:
        raise InvalidOptionError("needs a file that defines it", key=f"type {name}")
    if name == "PROTOBUF_NATIVE":
        return SchemaInfo(name, _protobuf(file, message), texts)
    if message is not None:
        raise InvalidOptionError("is only for Protobuf", key="--message")
    data = _read(file)
    with _naming(file):
        parse_avro_schema(data)
    return _sound(SchemaInfo(name, data, texts))


def _sound(schema: SchemaInfo) -> SchemaInfo:
    """Return a schema after checking that its properties allow reading values; raises `InvalidSchemaError`."""
    require_charset(schema.charset)
    _ = schema.avro_offset
    return schema


def schema_given(
    schema: SchemaInfo | Mapping[str, object] | str | os.PathLike[str] | None, kind: str | None
) -> SchemaInfo:
    """Return a user's schema from any form: itself, the JSON of an Avro schema, a file, or only the name of its type.

    Raises as `schema_by_hand`.
    """
    if isinstance(schema, SchemaInfo):
        if kind is not None and kind.upper() != schema.type:
            raise InvalidOptionError(f"contradicts the schema, which is of type {schema.type}", key=f"type {kind}")
        return schema
    if not isinstance(schema, Mapping):
        if not isinstance(schema, str | os.PathLike | None):
            reason = f"expected a file, an Avro schema as a mapping, or a `SchemaInfo`, not a {type(schema).__name__}"
            raise InvalidOptionError(reason, key="schema")
        return schema_by_hand(kind, None if schema is None else Path(schema))
    return avro_schema_given(json.dumps(schema).encode(), kind)


def avro_schema_given(data: bytes, kind: str | None) -> SchemaInfo:
    """Return the schema for this JSON of an Avro schema, of type AVRO or JSON; raises as `schema_by_hand`."""
    parse_avro_schema(data)
    name = _type_of(kind or "AVRO", None)
    if name not in {"AVRO", "JSON"}:
        raise InvalidOptionError("is not defined by an Avro schema", key=f"type {name}")
    return SchemaInfo(name, data)


def key_value_by_hand(key: SchemaInfo, value: SchemaInfo, *, is_separated: bool) -> SchemaInfo:
    """Return the schema of pairs of two others; with ``is_separated``, the pair's key is the message's key."""
    data = {name: json.loads(part.data) if part.data else "" for name, part in (("key", key), ("value", value))}
    properties = {"kv.encoding.type": "SEPARATED" if is_separated else "INLINE"}
    for name, part in (("key", key), ("value", value)):
        properties |= {
            f"{name}.schema.name": "",
            f"{name}.schema.type": part.type,
            f"{name}.schema.properties": json.dumps(dict(part.properties)),
        }
    made = SchemaInfo("KEY_VALUE", json.dumps(data).encode(), properties)
    key_value_schema(made)
    return made


def _type_of(kind: str | None, file: Path | None) -> str:
    if kind is None:
        if file is None:
            raise InvalidOptionError("expected a file that defines the schema, or --type", key="schema")
        return "PROTOBUF_NATIVE" if file.suffix in _PROTOBUF_SUFFIXES else "AVRO"
    name = kind.upper().replace("-", "_")
    if name not in {*DEFINED_TYPES, *PLAIN_TYPES}:
        known = [one.lower() for one in (*DEFINED_TYPES, *PLAIN_TYPES)]
        near = difflib.get_close_matches(name.lower(), known, n=1)
        hint = _INSTEAD.get(name) or (f"did you mean {near[0]}?" if near else "")
        reason = f"no such type; there are {', '.join(known)}"
        raise InvalidOptionError(f"{reason}; {hint}" if hint else reason, key=f"type {kind}")
    return name


def _protobuf(file: Path, message: str | None) -> bytes:
    descriptors = _compiled(file) if file.suffix == ".proto" else _read(file)
    with _naming(file):
        return native_schema_data(descriptors, message)


def _compiled(file: Path) -> bytes:
    """Return the descriptors of a ``.proto`` file and of its imports, from its folder or below."""
    _read(file)
    protoc = _protoc()
    if not protoc:
        command = f"protoc --include_imports --descriptor_set_out=schema.desc {file.name}"
        raise InvalidOptionError(
            f"protoc is not installed; install it, or run this elsewhere: {command}, and pass schema.desc",
            key=str(file),
        )
    with tempfile.TemporaryDirectory(prefix="ledgerfs-") as folder:
        out = Path(folder, "schema.desc")
        command_line = [*protoc, f"-I{file.parent}", "--include_imports", f"--descriptor_set_out={out}", str(file)]
        try:
            done = subprocess.run(command_line, capture_output=True, text=True, timeout=_PROTOC_SECONDS, check=False)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InvalidOptionError(f"protoc failed: {error}", key=str(file)) from error
        if done.returncode:
            raise InvalidSchemaError(f"protoc rejects the file: {_complaints(done.stderr)}", key=str(file))
        return out.read_bytes()


def _complaints(reported: str) -> str:
    """Return protoc's messages in one line, without the log of its library, if there is anything else."""
    lines = [line for line in reported.splitlines() if not _LOGGED.match(line)]
    return " ".join((" ".join(lines) or reported).split())


def _protoc() -> list[str]:
    """Return the command of protoc: of the system, or of grpcio-tools; empty without either."""
    found = shutil.which("protoc")
    if found is not None:
        return [found]
    tools = find_spec("grpc_tools")
    if tools is None or tools.origin is None:
        return []
    return [sys.executable, "-m", "grpc_tools.protoc", f"-I{Path(tools.origin).with_name('_proto')}"]


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_SAVED_BYTES // 4 + 1)
    except OSError as error:
        raise InvalidOptionError(f"cannot be read: {error.strerror or error}", key=str(file)) from error
    if len(data) > MAX_SAVED_BYTES // 4:
        raise InvalidOptionError(f"has more than {MAX_SAVED_BYTES // 4} bytes, the limit for a schema", key=str(file))
    return data


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Add the file's name to errors."""
    try:
        yield
    except InvalidSchemaError as error:
        raise InvalidSchemaError(error.reason, key=str(file)) from error
