"""The identity of a bucket: the key of its files in the disk cache.

A URL is not enough: many endpoints have an ``s3://tier``, and many accounts the same container. So the identity covers all options of the
filesystem, and environment variables that name an endpoint or account. It omits credentials: another key opens the same bucket.
"""

import hashlib
import inspect
import json
import os
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from fsspec.spec import AbstractFileSystem

from ledgerfs.storage.credentials import LOGIN_NAMES, is_credential, without_credentials
from ledgerfs.storage.fsspec_handle import FsspecHandle

_PLACES = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_PROFILE",
    "AWS_CONFIG_FILE",
    "STORAGE_EMULATOR_HOST",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_CONNECTION_STRING",
    "LEDGERFS_ZOOKEEPER_USERNAME",
)
_TUNING = frozenset(
    {"batch_size", "blocksize", "block_size", "default_block_size", "default_cache_type", "default_fill_cache", "listings_expiry_time"}
    | {"bookie_rate", "read_from", "timeout_s"}
    | {"max_concurrency", "max_paths", "max_pool_connections", "retries", "use_listings_cache"}
)  # fmt: skip
"""Options that change the speed of reads, but not the bucket."""

_NOTHING: tuple[object, ...] = (None, {}, [], ())
"""Values that equal an absent option."""

_CONNECTION = re.compile(r"conn(ection)?_str(ing)?\Z", re.IGNORECASE)
_USER = re.compile(r"(?<=://)[^\s/?#]*@")
_QUERY = re.compile(r"(?<=[?&])([^=&#]+)=[^&#]*")


def identity_of(fs: Any, root: str) -> str | None:  # noqa: ANN401  (fsspec is not typed)
    """Return the identity of the folder ``root`` of an fsspec filesystem; None for one in memory, or with options that have no identity.

    It consists of the bucket's URL, for people, and a SHA-256 of URL, options and environment. The order of options and explicit defaults
    do not change it. It contains no credential. None is not equal to any other identity.
    """
    try:
        described = _filesystem(fs)
        if _is_in_memory(described):
            return None
        places = {name: _value(name, os.environ[name]) for name in _PLACES if name in os.environ}
        text = json.dumps([_value("root", root), described, places], sort_keys=True)
    except (TypeError, ValueError):
        return None
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{without_credentials(str(fs.unstrip_protocol(root)))} sha256:{digest}"


def _filesystem(fs: AbstractFileSystem) -> dict[str, Any]:
    handle = FsspecHandle.of(fs)
    given = {
        name: value for name, value in _named(handle.cls, handle.args, handle.options).items() if value not in _NOTHING
    }
    return {"class": f"{handle.cls.__module__}.{handle.cls.__qualname__}", "options": _mapping(given)}


def _named(cls: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401  (a class, whose `__init__` mypy would not have looked at)
    """Return all arguments of a filesystem by their names, except those that equal their default."""
    # The signature of the class itself, not of fsspec's metaclass, which accepts anything.
    parameters = dict(list(inspect.signature(cls.__init__).parameters.items())[1:])
    names = [name for name, one in parameters.items() if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    given = {
        **{f"args[{i}]": value for i, value in enumerate(args[len(names) :])},
        **dict(zip(names, args, strict=False)),
    }
    given.update(options)
    return {
        name: value
        for name, value in given.items()
        if not (name in parameters and _is(value, parameters[name].default))
    }


def _is(value: object, default: object) -> bool:
    return type(value) is type(default) and value == default


def _mapping(values: Mapping[str, Any]) -> dict[str, Any]:
    kept = ((str(name), value) for name, value in values.items() if str(name) not in _TUNING)
    return {
        name: _value(name, value)
        for name, value in kept
        if not is_credential(name) or name.lower() in LOGIN_NAMES or _CONNECTION.search(name)
    }


def _value(name: str, value: Any) -> Any:  # noqa: ANN401  (any value of an option)
    """Return a value for JSON; raises `TypeError` for objects that another process cannot compare."""
    if isinstance(value, AbstractFileSystem):
        return _filesystem(value)
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, list | tuple):
        return [_value(name, one) for one in value]
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, str):
        return _connection(value) if _CONNECTION.search(name) else _address(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    raise TypeError(type(value))


def _connection(text: str) -> dict[str, str]:
    """Return the fields of an Azure connection string, such as ``AccountName``, without keys."""
    parts = (part.partition("=") for part in text.split(";") if part)
    return {name: value for name, _, value in parts if not is_credential(name)}


def _address(text: str) -> str:
    """Return a text; a URL without its password and the credentials in its query."""
    if "://" not in text:
        return text
    text = _USER.sub(lambda found: found[0].partition(":")[0].removesuffix("@") + "@", text)
    return _QUERY.sub(lambda found: found[1] if is_credential(found[1]) else found[0], text)


def _is_in_memory(value: Any) -> bool:  # noqa: ANN401  (any JSON value)
    if isinstance(value, dict):
        return any(map(_is_in_memory, value.values()))
    if isinstance(value, list):
        return any(map(_is_in_memory, value))
    return value == "memory" or (isinstance(value, str) and value.endswith(("MemoryFileSystem", "::memory")))
