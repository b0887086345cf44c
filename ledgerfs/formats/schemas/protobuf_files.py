"""The text of a PROTOBUF_NATIVE schema: JSON around a set of file descriptors, and the name of the message in it."""

import base64
import json
from collections.abc import Iterator

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.protobuf_schema import native_descriptors, pool_of

_GOOGLES = "google.protobuf"


def native_schema_data(descriptors: bytes, message: str | None) -> bytes:
    """Return the schema of a message in a ``FileDescriptorSet``, as ``protoc --include_imports --descriptor_set_out`` writes it.

    Without a name, the only message outside Google's own packages is meant. Raises `InvalidSchemaError`.
    """
    try:
        files = FileDescriptorSet.FromString(descriptors)
    except DecodeError as error:
        raise InvalidSchemaError("not a set of file descriptors (protoc --descriptor_set_out)") from error
    pool_of(files)
    file, name = _root(files, message)
    reported = {
        "fileDescriptorSet": base64.b64encode(descriptors).decode(),
        "rootMessageTypeName": name,
        "rootFileDescriptorName": file,
    }
    return json.dumps(reported).encode()


def read_native_schema(data: bytes) -> tuple[FileDescriptorSet, DescriptorProto]:
    """Return the descriptors of a PROTOBUF_NATIVE schema, and that of its message; raises `InvalidSchemaError`."""
    files, name = native_descriptors(data)
    for found, _, message in _messages(files):
        if found == name:
            return files, message
    raise InvalidSchemaError(f"the descriptors have no message {name!r}")


def _root(files: FileDescriptorSet, message: str | None) -> tuple[str, str]:
    """Return the file of a message, and its full name."""
    if message is not None:
        for name, file, _ in _messages(files):
            if name == message.removeprefix("."):
                return file, name
    own = {file.name: file.package for file in files.file}
    offered = [(file, name) for name, file, _ in _messages(files) if not own[file].startswith(_GOOGLES)]
    if message is None and len(offered) == 1:
        return offered[0]
    if not offered:
        raise InvalidSchemaError("the file defines no message")
    names = ", ".join(name for _, name in offered[:20])
    problem = "the file defines several messages" if message is None else f"the file has no message {message!r}"
    raise InvalidSchemaError(f"{problem}; choose one with --message: {names}")


def _messages(files: FileDescriptorSet) -> Iterator[tuple[str, str, DescriptorProto]]:
    """Yield the full name of each message (nested ones included), the name of its file, and the message."""
    for file in files.file:
        waiting = [(file.package, one) for one in reversed(file.message_type)]
        while waiting:
            before, one = waiting.pop()
            name = f"{before}.{one.name}" if before else one.name
            yield name, file.name, one
            waiting += [(name, inner) for inner in reversed(one.nested_type) if not inner.options.map_entry]
