"""The file ``policy.toml``: rules of topics that override the cluster's own policies, and settings of the service.

Every key has a type and bounds. An unknown key, or a value of a wrong type, is an error that names file and key, and is never ignored: a
misspelt ``trim`` would delete data that should be kept.
"""

import re
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ledgerfs.errors import InvalidOptionError
from ledgerfs_cluster.lifecycle.policy.typed_keys import (
    DAY_MS,
    flag,
    mapping,
    number,
    one_of,
    or_never,
    read_table,
    same,
    size,
    span,
    tables,
    text,
)
from ledgerfs_cluster.offload.offload_bucket import OffloadBucket
from ledgerfs_cluster.offload.offload_driver import bucket_in, driver_for, folder_in_bucket, require_place
from ledgerfs_cluster.snapshot.policies import (
    BROKERS_DELETION_LAG_MS,
    NO_LIMIT,
    BrokerDefaults,
    OffloadThresholds,
    Retention,
)

MOST_BYTES = 1 << 20
"""Largest policy file, bytes."""

SETTLED_S = 5
"""An edited file must be unchanged for so many seconds before a service uses it."""
_MINUTE_MS, _HOUR_MS, _SECOND_MS = 60_000, 3_600_000, 1000
_YEARS_MS = 36_500 * DAY_MS
_LONG = 2**63 - 1
_MOST_PATTERN = 1000
_LEAST_BLOCK, _MOST_BLOCK = 5 << 20, (2 << 30) - 1


class Via(Enum):
    """The program that works on a topic; the value is the word in the file."""

    BROKER = "broker"
    """A broker, which loads the topic if it has to."""
    DIRECT = "direct"
    """This program, on topics without a broker."""
    AUTO = "auto"
    """A broker if one owns the topic's bundle, or if ZooKeeper does not have owners; otherwise this program."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Settings of the service.

    Attributes
    ----------
    every_ms
        Interval of checks of the cluster.
    bookie_rate, store_rate
        Most bytes a second that are read from each bookie, and that pass to the store and back; None for no limit.

    """

    every_ms: int = _MINUTE_MS
    bookie_rate: int | None = None
    store_rate: int | None = None


@dataclass(frozen=True, slots=True)
class TopicWishes:
    """Settings of one ``[[topics]]`` for the topics that it matches; None where the cluster's own policies apply.

    Attributes
    ----------
    match
        Must match the whole name ``tenant/namespace/topic``, of a partition with or without its number.
    offload_size, offload_time_ms
        As in `ledgerfs_cluster.snapshot.policies.NamespacePolicies`; `NO_LIMIT` for never.
    bucket
        The name of an `OffloadBucket`.
    trim, offload
        Whether brokers are asked to trim, and whether any ledger is offloaded.

    """

    match: re.Pattern[str]
    offload_size: int | None = None
    offload_time_ms: int | None = None
    bucket: str | None = None
    via: Via | None = None
    trash_grace_ms: int | None = None
    trim: bool = True
    offload: bool = True


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A policy file.

    Attributes
    ----------
    path
        Of the file itself.
    cluster, admin
        The URL of the cluster, and of a broker's web service; None if the command line has to set it.
    token_file
        File with the token for ``admin``.
    service
        Settings of the service.
    broker
        Values that only the brokers' configuration has.
    is_broker_retention_told, is_broker_lag_told
        Whether the file sets these two of them: nothing is deleted by a default that brokers may have changed.
    via, trash_grace_ms, bucket
        For topics whose pattern does not set them.
    orphans, orphan_grace_ms
        Whether orphans are deleted, and how long they, and failed attempts, are left alone before.
    buckets
        {name: bucket}.
    topics
        In the order of the file: the first match applies.
    digest
        SHA-256 of the file's bytes; "" if it was not read from a file.

    """

    path: Path
    cluster: str | None = None
    admin: str | None = None
    token_file: Path | None = None
    service: ServiceSettings = ServiceSettings()
    broker: BrokerDefaults = field(default_factory=BrokerDefaults)
    is_broker_retention_reported: bool = False
    is_broker_lag_reported: bool = False
    via: Via = Via.AUTO
    trash_grace_ms: int = _HOUR_MS
    bucket: str | None = None
    orphans: bool = False
    orphan_grace_ms: int = _HOUR_MS
    buckets: Mapping[str, OffloadBucket] = field(default_factory=dict)
    topics: tuple[TopicWishes, ...] = ()
    digest: str = ""


def read_policy_file(path: Path) -> PolicyFile:
    """Read a policy file; raises `InvalidOptionError`, which names file and key."""
    data = _read(path)
    return replace(parse_policy_file(data, path), digest=sha256(data).hexdigest())


def require_settled(path: Path) -> None:
    """Raise `InvalidOptionError` for a policy file that is empty, or was written a moment ago: the rest of it may be missing."""
    try:
        found = path.stat()
    except OSError as error:
        raise InvalidOptionError(f"the policy file cannot be read: {error.strerror or error}", key=str(path)) from error
    if not found.st_size or time.time() - found.st_mtime < SETTLED_S:
        raise InvalidOptionError(
            f"the policy file is empty or was just written; it is used after {SETTLED_S} s without changes",
            key=str(path),
        )


def why_other(file: PolicyFile) -> str | None:
    """Return how a file differs from when it was read; None if it is the same, or was not read from a file."""
    if not file.digest:
        return None
    try:
        is_same = sha256(_read(file.path)).hexdigest() == file.digest
    except InvalidOptionError as error:
        return f"the current policy is unknown: {error}"
    return None if is_same else f"{file.path} was edited after it was read: restart the command to use the new policy"


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as opened:
            return opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidOptionError(f"the policy file cannot be read: {error.strerror or error}", key=str(path)) from error


def parse_policy_file(data: bytes, path: Path) -> PolicyFile:
    """Parse the bytes of a policy file; raises `InvalidOptionError`, which names ``path`` and the key."""
    if len(data) > MOST_BYTES:
        raise InvalidOptionError(
            f"the policy file is too large: at most {MOST_BYTES:,} bytes are allowed", key=str(path)
        )
    try:
        reported = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidOptionError(f"the policy file is not valid TOML: {error}", key=str(path)) from error
    place = f"{path}: "
    top = read_table(reported, _TOP, place)
    service, brokers, defaults = (
        read_table(top.pop(name, {}), keys, f"{place}{name}.")
        for name, keys in (("service", _SERVICE), ("broker", _BROKER), ("defaults", _DEFAULTS))
    )
    named = top.pop("buckets", {})
    each = read_table(named, same(mapping, *named), f"{place}buckets.")
    buckets = {name: _bucket(name, table, f"{place}buckets.{name}.") for name, table in each.items()}
    _require_one_place_a_url(buckets, path)
    _require_bucket(defaults, buckets, f"{place}defaults.")
    topics = enumerate(top.pop("topics", ()), 1)
    if "token_file" in top:
        # A relative path starts at the policy file's folder.
        top["token_file"] = path.parent / top["token_file"]
    return PolicyFile(
        path,
        service=ServiceSettings(**service),
        broker=_broker(brokers),
        is_broker_retention_reported={"retention_minutes", "retention_megabytes"} <= set(brokers),
        is_broker_lag_reported="deletion_lag" in brokers,
        buckets=MappingProxyType(buckets),
        topics=tuple(_wishes(one, buckets, f"{place}topics[{count}].") for count, one in topics),
        **top,
        **defaults,
    )


def _broker(reported: Mapping[str, Any]) -> BrokerDefaults:
    seconds = reported.get("offload_seconds", NO_LIMIT)
    return BrokerDefaults(
        Retention.of(reported.get("retention_minutes", 0), reported.get("retention_megabytes", 0)),
        OffloadThresholds(reported.get("offload_bytes", NO_LIMIT), seconds * 1000 if seconds >= 0 else NO_LIMIT),
        reported.get("deletion_lag", BROKERS_DELETION_LAG_MS),
    )


def _bucket(name: str, table: Mapping[str, Any], place: str) -> OffloadBucket:
    reported = read_table(table, _BUCKET, place)
    url = reported.pop("url", None)
    if url is None:
        raise InvalidOptionError("is missing; set the URL of the bucket, such as s3://tier", key=f"{place}url")
    reported = {"driver": driver_for(url), "bucket": bucket_in(url), **reported}
    folder = folder_in_bucket(url)
    try:
        if folder:
            raise InvalidOptionError(
                f"has a folder in the bucket, {folder}: brokers only find offloads at the top of a bucket"
            )
        require_place(url, reported["driver"], reported["bucket"], reported.get("endpoint", ""))
    except InvalidOptionError as error:
        raise InvalidOptionError(error.reason, key=f"{place}url") from error
    return OffloadBucket(name, url, **reported)


def _require_one_place_a_url(buckets: Mapping[str, OffloadBucket], path: Path) -> None:
    """Raise for two buckets of one URL in different places: the journal identifies buckets by their URL."""
    seen: dict[str, OffloadBucket] = {}
    for one in buckets.values():
        other = seen.setdefault(one.url.rstrip("/"), one)
        if (other.storage_options, other.endpoint) != (one.storage_options, one.endpoint):
            reason = (
                f"is also the url of [buckets.{other.name}], which has another endpoint or other options, and the journal cannot "
                "distinguish the two. Use one policy file for each"
            )
            raise InvalidOptionError(reason, key=f"{path}: buckets.{one.name}.url")


def _wishes(table: Mapping[str, Any], buckets: Mapping[str, OffloadBucket], place: str) -> TopicWishes:
    reported = read_table(table, _TOPIC, place)
    if "match" not in reported:
        reason = "is missing; set a regular expression for tenant/namespace/topic, such as 'public/orders/.*'"
        raise InvalidOptionError(reason, key=f"{place}match")
    _require_bucket(reported, buckets, place)
    return TopicWishes(**reported)


def _require_bucket(reported: Mapping[str, Any], buckets: Mapping[str, OffloadBucket], place: str) -> None:
    """Raise for the name of a bucket that the file does not have."""
    name = reported.get("bucket")
    if name is not None and name not in buckets:
        known = f"it has {', '.join(sorted(buckets))}" if buckets else "it has no buckets"
        raise InvalidOptionError(f"the policy file has no [buckets.{name}]; {known}", key=f"{place}bucket")


def _pattern(value: object) -> re.Pattern[str]:
    pattern = text(value)
    if "://" in pattern:
        reason = "must match tenant/namespace/topic without persistent://, such as 'public/orders/.*'"
        raise InvalidOptionError(reason)
    if len(pattern) > _MOST_PATTERN:
        raise InvalidOptionError(f"has more than {_MOST_PATTERN:,} characters")
    try:
        # A topic's name may contain any text, also a new line.
        return re.compile(pattern, re.DOTALL)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidOptionError(f"is not a regular expression: {error}") from error


_GRACE = span(0, _YEARS_MS)
_TOP = {
    **same(text, "cluster", "admin", "token_file"),
    **same(mapping, "service", "broker", "defaults", "buckets"),
    **same(tables, "topics"),
}
_SERVICE = {"every": ("every_ms", span(_SECOND_MS, DAY_MS)), **same(size(1, _LONG), "bookie_rate", "store_rate")}
_BROKER = {
    **same(number(NO_LIMIT, 2**31 - 1), "retention_minutes", "retention_megabytes"),
    **same(size(NO_LIMIT, _LONG), "offload_bytes"),
    **same(number(NO_LIMIT, _YEARS_MS // 1000), "offload_seconds"),
    **same(or_never(_GRACE), "deletion_lag"),
}
_OF_TOPICS = {**same(one_of(Via), "via"), **same(text, "bucket"), "trash_grace": ("trash_grace_ms", _GRACE)}
# Brokers need up to a minute for their changes, and retry: the default leaves them an hour.
_DEFAULTS = {**_OF_TOPICS, **same(flag, "orphans"), "orphan_grace": ("orphan_grace_ms", _GRACE)}
_BUCKET = {
    **same(text, "url", "driver", "bucket", "region", "endpoint"),
    **same(size(_LEAST_BLOCK, _MOST_BLOCK), "block_size"),
    **same(mapping, "options"),
}
_TOPIC = {
    **_OF_TOPICS,
    **same(_pattern, "match"),
    **same(flag, "trim", "offload"),
    "offload_above": ("offload_size", or_never(size(0, _LONG))),
    "offload_after": ("offload_time_ms", or_never(_GRACE)),
}
