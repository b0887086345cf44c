"""The file ``policy.toml``: what is wanted of topics where the cluster's own policies are not to hold, and how the service works.

Every key has a type and bounds. A key that is not known, or a value that is none of its type, is an error that names file and key, never
left alone: a misspelt ``trim`` would delete what was to be kept.
"""

import re
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from ledgerfs.errors import InvalidOptionError
from ledgerfs_cluster.lifecycle.policy.typed_keys import DAY_MS, Keys
from ledgerfs_cluster.offload.offload_bucket import DEFAULT_BLOCK_SIZE, OffloadBucket
from ledgerfs_cluster.offload.offload_driver import bucket_in, driver_for, folder_in_bucket, require_place
from ledgerfs_cluster.snapshot.policies import (
    BROKERS_DELETION_LAG_MS,
    NO_LIMIT,
    BrokerDefaults,
    OffloadThresholds,
    Retention,
)

MOST_BYTES = 1 << 20
"""Of a policy file."""
_MINUTE_MS, _HOUR_MS, _SECOND_MS = 60_000, 3_600_000, 1000
_YEARS_MS = 36_500 * DAY_MS
_LONG = 2**63 - 1
_MOST_PATTERN = 1000
_LEAST_BLOCK, _MOST_BLOCK = 5 << 20, (2 << 30) - 1
_TRIES, _PAUSE_S = 5, 0.1
"""An editor may have moved the file away for a moment."""


class Via(Enum):
    """Who does the work on a topic; the value is the word in the file."""

    BROKER = "broker"
    """A broker, which loads the topic if it has to."""
    DIRECT = "direct"
    """This program, on topics that no broker has."""
    AUTO = "auto"
    """A broker where one owns the topic's bundle, this program where none does."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """How the service works.

    Attributes
    ----------
    every_ms
        How often it looks at the cluster.
    bookie_rate, store_rate
        Bytes a second that are read of each bookie, and that pass to the store and back, at most; None for no bound.
    floor_rate
        Bytes a second from which the rate of the store follows the backlog; None if it is always the highest.

    """

    every_ms: int = _MINUTE_MS
    bookie_rate: int | None = None
    store_rate: int | None = None
    floor_rate: int | None = None


@dataclass(frozen=True, slots=True)
class TopicWishes:
    """What one ``[[topics]]`` wants of the topics that it matches; None where it says nothing, and the cluster's own policies hold.

    Attributes
    ----------
    match
        Has to match the whole name ``tenant/namespace/topic``, of a partition with or without its number.
    offload_size, offload_time_ms
        As in `ledgerfs_cluster.snapshot.policies.NamespacePolicies`; `NO_LIMIT` for never.
    bucket
        The name of a `OffloadBucket`.
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
        The URL of the cluster, and of a broker's web service; None if the command line has to tell.
    token_file
        Has the token for ``admin``.
    service
        How the service works.
    broker
        What only the brokers' configuration has.
    is_broker_retention_told, is_broker_lag_told
        Whether the file tells these two of it: nothing is deleted by a default that brokers may have changed.
    via, trash_grace_ms, bucket
        For topics whose pattern does not tell.
    orphans, orphan_grace_ms
        Whether what nobody names is deleted, and for how long it, or an attempt that failed, is left alone before.
    buckets
        {name: bucket}.
    topics
        In the order of the file: the first that matches holds.
    digest
        SHA-256 of the file's bytes; "" for what was never read from a file.

    """

    path: Path
    cluster: str | None = None
    admin: str | None = None
    token_file: Path | None = None
    service: ServiceSettings = ServiceSettings()
    broker: BrokerDefaults = field(default_factory=BrokerDefaults)
    is_broker_retention_told: bool = False
    is_broker_lag_told: bool = False
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


def digest_of(path: Path) -> str:
    """Return the digest of a policy file as it is now; raises `InvalidOptionError` if it cannot be read."""
    return sha256(_read(path)).hexdigest()


def why_other(file: PolicyFile, pause: Callable[[float], None] = time.sleep) -> str | None:
    """Return why a file is not as it was read; None if it is, or was never read from a file."""
    if not file.digest:
        return None
    reason = ""
    for left in reversed(range(_TRIES)):
        try:
            digest = digest_of(file.path)
        except InvalidOptionError as error:
            reason = str(error)
        else:
            is_same = digest == file.digest
            return (
                None if is_same else f"{file.path} was edited since it was read: start again, so that it is read anew"
            )
        if left:
            pause(_PAUSE_S)
    return f"nobody knows what is wanted any more: {reason}"


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as opened:
            return opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidOptionError(f"the policy file cannot be read: {error.strerror or error}", key=str(path)) from error


def parse_policy_file(data: bytes, path: Path) -> PolicyFile:
    """Parse the bytes of a policy file; raises `InvalidOptionError`, which names ``path`` and the key."""
    if len(data) > MOST_BYTES:
        raise InvalidOptionError(f"a policy file has at most {MOST_BYTES:,} bytes", key=str(path))
    try:
        told = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidOptionError(f"not TOML: {error}", key=str(path)) from error
    top = Keys(told, str(path))
    buckets = {name: _bucket(name, table) for name, table in top.tables_of("buckets")}
    _require_one_place_a_url(buckets, path)
    told_of_brokers = told.get("broker") or {}
    defaults = top.table("defaults")
    via = _via(defaults) or Via.AUTO
    made = PolicyFile(
        path,
        cluster=top.text("cluster"),
        admin=top.text("admin"),
        token_file=_path(top, "token_file", path),
        service=_service(top.table("service")),
        broker=_broker(top.table("broker")),
        is_broker_retention_told={"retention_minutes", "retention_megabytes"} <= set(told_of_brokers),
        is_broker_lag_told="deletion_lag" in told_of_brokers,
        via=via,
        trash_grace_ms=defaults.span("trash_grace", 0, _YEARS_MS, _HOUR_MS),
        bucket=_bucket_name(defaults, buckets),
        orphans=defaults.flag("orphans", default=False),
        # Brokers take up to a minute for what they do, and try again.
        orphan_grace_ms=defaults.span("orphan_grace", 0, _YEARS_MS, _HOUR_MS),
        buckets=MappingProxyType(buckets),
        topics=tuple(_wishes(one, buckets) for one in top.list_of_tables("topics")),
    )
    defaults.require_no_others()
    top.require_no_others()
    return made


def _service(keys: Keys) -> ServiceSettings:
    made = ServiceSettings(
        every_ms=keys.span("every", _SECOND_MS, DAY_MS, _MINUTE_MS),
        **{name: keys.size(name, 1, _LONG) for name in ("bookie_rate", "store_rate", "floor_rate")},
    )
    if made.floor_rate is not None and made.store_rate is not None and made.floor_rate > made.store_rate:
        raise keys.error("floor_rate", "is more than store_rate")
    keys.require_no_others()
    return made


def _broker(keys: Keys) -> BrokerDefaults:
    offload_seconds = keys.number("offload_seconds", NO_LIMIT, _YEARS_MS // 1000, NO_LIMIT)
    offload_bytes = keys.size("offload_bytes", NO_LIMIT, _LONG)
    made = BrokerDefaults(
        Retention.of(
            keys.number("retention_minutes", NO_LIMIT, 2**31 - 1, 0),
            keys.number("retention_megabytes", NO_LIMIT, 2**31 - 1, 0),
        ),
        OffloadThresholds(
            NO_LIMIT if offload_bytes is None else offload_bytes,
            offload_seconds * 1000 if offload_seconds >= 0 else NO_LIMIT,
        ),
        0,
        keys.span_or_never("deletion_lag", _YEARS_MS, BROKERS_DELETION_LAG_MS),
    )
    keys.require_no_others()
    return made


def _bucket(name: str, keys: Keys) -> OffloadBucket:
    url = keys.text("url")
    if url is None:
        raise keys.error("url", "is missing; such as s3://tier")
    folder = folder_in_bucket(url)
    if folder:
        raise keys.error("url", f"has a folder in the bucket, {folder}: no broker would find what is offloaded there")
    block_size = keys.size("block_size", _LEAST_BLOCK, _MOST_BLOCK)
    made = OffloadBucket(
        name,
        url,
        keys.text("driver") or driver_for(url),
        keys.text("bucket") or bucket_in(url),
        keys.text("region") or "",
        keys.text("endpoint") or "",
        DEFAULT_BLOCK_SIZE if block_size is None else block_size,
        MappingProxyType(keys.mapping("options")),
    )
    try:
        require_place(url, made.driver, made.bucket, made.endpoint)
    except InvalidOptionError as error:
        raise keys.error("url", error.reason) from error
    keys.require_no_others()
    return made


def _require_one_place_a_url(buckets: Mapping[str, OffloadBucket], path: Path) -> None:
    """Raise for two buckets of one URL that are not in one place: the journal knows buckets by their URL."""
    seen: dict[str, OffloadBucket] = {}
    for one in buckets.values():
        other = seen.setdefault(one.url.rstrip("/"), one)
        if (other.storage_options, other.endpoint) != (one.storage_options, one.endpoint):
            reason = (
                f"is that of [buckets.{other.name}], too, which has another endpoint or other options: what is written to "
                "one could be looked for in the other. Use a policy file for each"
            )
            raise InvalidOptionError(reason, key=f"{path}: buckets.{one.name}.url")


def _wishes(keys: Keys, buckets: Mapping[str, OffloadBucket]) -> TopicWishes:
    made = TopicWishes(
        _pattern(keys),
        keys.size_or_never("offload_above", _LONG),
        keys.span_or_never("offload_after", _YEARS_MS, None),
        _bucket_name(keys, buckets),
        _via(keys),
        keys.span("trash_grace", 0, _YEARS_MS, None),
        keys.flag("trim", default=True),
        keys.flag("offload", default=True),
    )
    keys.require_no_others()
    return made


def _pattern(keys: Keys) -> re.Pattern[str]:
    text = keys.text("match")
    if text is None:
        raise keys.error("match", "is missing; a pattern of tenant/namespace/topic, such as 'public/orders/.*'")
    if "://" in text:
        raise keys.error("match", "is of tenant/namespace/topic, such as 'public/orders/.*', without persistent://")
    if len(text) > _MOST_PATTERN:
        raise keys.error("match", f"has more than {_MOST_PATTERN:,} characters")
    try:
        # A topic may have any text as its name, a new line, too.
        return re.compile(text, re.DOTALL)
    except (re.error, RecursionError, OverflowError) as error:
        raise keys.error("match", f"is no regular expression: {error}") from error


def _via(keys: Keys) -> Via | None:
    word = keys.one_of("via", [one.value for one in Via])
    return None if word is None else Via(word)


def _bucket_name(keys: Keys, buckets: Mapping[str, OffloadBucket]) -> str | None:
    name = keys.text("bucket")
    if name is not None and name not in buckets:
        known = f"there are {', '.join(sorted(buckets))}" if buckets else "there are none"
        raise keys.error("bucket", f"no [buckets.{name}] is in the file; {known}")
    return name


def _path(keys: Keys, name: str, file: Path) -> Path | None:
    """Return a path; one that is not absolute is beside the policy file."""
    text = keys.text(name)
    return None if text is None else file.parent / text
