"""What tells one bucket from another, so that what is kept of it on disk is found again by other processes, and never taken for another's.

A URL is not enough: the same ``s3://tier`` lies behind many endpoints. So all options of the filesystem count but the secret ones, which
leave no trace on disk, not even in a digest; and so do those variables of the environment that name a place.
"""

import json
import os
import re
from typing import Any

from fsspec.json import FilesystemJSONEncoder

from ledgerfs.vfs.stores.fsspec_handle import FsspecHandle, without_credentials

_SECRET = re.compile(r"secret|token|pass|cred|account_key|connection_string|sas|(^|_)key$", re.IGNORECASE)
_PLACES = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_PROFILE",
    "AWS_CONFIG_FILE",
    "STORAGE_EMULATOR_HOST",
    "AZURE_STORAGE_ACCOUNT_NAME",
)


def identity_of(fs: Any, root: str) -> str | None:  # noqa: ANN401  (fsspec is not typed)
    """Return the identity of the folder ``root`` of an fsspec filesystem; None for what no other process sees, or cannot be told."""
    handle = FsspecHandle.of(fs)
    described = [f"{handle.cls.__module__}.{handle.cls.__qualname__}", handle.args, handle.options]
    try:
        plain = json.loads(json.dumps(described, cls=FilesystemJSONEncoder))
    except (TypeError, ValueError):
        return None
    if _is_in_memory(plain):
        return None
    places = {name: os.environ[name] for name in _PLACES if name in os.environ}
    return without_credentials(json.dumps([root, _without_secrets(plain), places], sort_keys=True))


def _is_in_memory(value: Any) -> bool:  # noqa: ANN401  (whatever JSON knows)
    if isinstance(value, dict):
        return any(map(_is_in_memory, value.values()))
    if isinstance(value, list):
        return any(map(_is_in_memory, value))
    return value == "memory" or (isinstance(value, str) and value.endswith(("MemoryFileSystem", "::memory")))


def _without_secrets(value: Any) -> Any:  # noqa: ANN401  (as above)
    if isinstance(value, dict):
        return {name: _without_secrets(one) for name, one in value.items() if not _SECRET.search(name)}
    if isinstance(value, list):
        return [_without_secrets(one) for one in value]
    return value
