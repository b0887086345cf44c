"""Options of all functions that read messages: one frozen value, checked when it is made.

Imports nothing heavy, since options are checked before messages are read.
"""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from ledgerfs.catalog.time_arguments import CLOCK_SLACK_MS, Moment, iso_time, milliseconds_of
from ledgerfs.errors import InvalidOptionError
from ledgerfs.messages.codecs.size_limits import DEFAULT_MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

    from ledgerfs.formats.schemas.schema_info import SchemaInfo

Transactions = Literal["committed", "readable", "all"]
OnEncrypted = Literal["raise", "null", "skip"]
OnCorrupt = Literal["raise", "skip"]
Order = Literal["partition", "publish_time"]
Values = Literal["bytes", "typed", "json", "auto"]
OnUndecodable = Literal["raise", "null", "skip"]
PrivateKeys = Mapping[str, str | bytes | PathLike[str]]
"""{name of the key in Pulsar: PEM, or the path of a PEM file}."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "transactions": get_args(Transactions),
    "on_encrypted": get_args(OnEncrypted),
    "on_corrupt": get_args(OnCorrupt),
    "order": get_args(Order),
    "values": get_args(Values),
    "on_undecodable": get_args(OnUndecodable),
}
"""Values of options with few of them, the default first."""

OF_VALUES = ("values", "schema_version", "flatten", "on_undecodable")
"""Options of values as columns: ``values``, and those without effect if it is ``bytes``."""

OF_MESSAGES = ("private_keys", "on_encrypted", "include_markers", "check_checksums", "max_message_bytes")
"""Options of one message (`Topic.message`)."""

NO_VERSION = "expected a version number, 'latest', 'each', or a schema"
NO_TYPE_OF_JSON = (
    "values='json' ignores the schema versions of messages: expected an Avro schema, or an Arrow type; without one, "
    "the columns are inferred"
)
"""The reason for refusing a ``schema_version``."""
_SHOWN = 200


class ScanKeywords(TypedDict, total=False):
    """The fields of `ScanOptions` besides ``columns``, as keyword arguments."""

    start_time: Moment
    end_time: Moment
    key: str | bytes | None
    where: "pc.Expression | None"
    limit: int | None
    order: Order
    clock_slack_ms: int
    transactions: Transactions
    include_markers: bool
    private_keys: PrivateKeys | None
    on_encrypted: OnEncrypted
    on_corrupt: OnCorrupt
    check_checksums: bool
    max_message_bytes: int
    values: Values
    schema_version: "int | str | SchemaInfo | dict[str, Any] | pa.DataType | pa.Schema"
    flatten: bool
    on_undecodable: OnUndecodable
    threads: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScanOptions:
    """The part of a topic to read, and its format. Raises `InvalidOptionError` for invalid values, and options without effect together.

    Attributes
    ----------
    columns
        Names, in the order of the result (``docs/reference/messages.md``); with ``flatten`` also names of fields of values. Other columns
        are not built. None for the default ones.
    start_time, end_time
        Messages published from here on, and before this, as ms since 1970 UTC. Accepts ISO 8601 text, ``-1h`` (an hour ago; also ``s``,
        ``m``, ``d``, ``w``), ``now``, ``today``, ``yesterday``, datetime, date, or ms; UTC without a zone.
    key
        Only messages with this key: a text, or bytes for a key that its producer sent as bytes.
    where
        Only messages for which this expression is true. It may contain all columns, also those that are not returned. Ledgers and blocks
        that cannot contain such messages, by their publish times and ids, are not read.
    limit
        Most rows; reads no more than these need.
    order
        Of a partitioned topic: ``partition``, one after the other; or ``publish_time``: of the partitions' next messages, the one published
        first is next. The messages of a partition keep their order in both.
    clock_slack_ms
        How much earlier than the previous message a message may be published, ms.
    transactions
        ``committed``; ``readable``, which stops where Pulsar's reader would stop, in each partition; ``all``, with their state.
    include_markers
        Whether the broker's markers are rows, too.
    private_keys, on_encrypted
        Keys for decryption; for messages without a key ``null`` leaves out the value, ``skip`` the message.
    on_corrupt
        ``skip`` leaves out damage, too large messages, entries in Kafka's format and missing ledgers, and reports them.
    check_checksums
        Whether to check the CRC32C of every entry that has one.
    max_message_bytes
        The largest message to decompress, or to join from chunks, bytes.
    values
        ``bytes``, unchanged; ``typed``: columns, by the topic's schemas (`Topic.schema_versions`); ``auto``: columns if there are schemas;
        ``json``: columns of JSON documents. Their type is inferred first, by reading all that the scan reads, unless ``schema_version``
        contains it.
    schema_version
        The schema to read values as: ``latest``; a number; a schema (an Avro one as in JSON, or a `SchemaInfo`); or ``each``, a struct
        with a field per version, for values as they were written. For JSON an Avro schema, or an Arrow type or schema, whose fields alone
        are read.
    flatten
        Whether the fields of values are columns beside the others; those with the name of a message column are ``value_…``.
    on_undecodable
        For values that contradict their schema, are not JSON, or have an unknown schema: ``raise``, ``null``, or ``skip`` the message.
    threads
        Threads that decode; None for one per core. The rows are the same.

    """

    columns: Sequence[str] | None = None
    start_time: Moment = None
    end_time: Moment = None
    key: str | bytes | None = None
    where: "pc.Expression | None" = None
    limit: int | None = None
    order: Order = "partition"
    clock_slack_ms: int = CLOCK_SLACK_MS
    transactions: Transactions = "committed"
    include_markers: bool = False
    private_keys: PrivateKeys | None = field(default=None, repr=False)
    on_encrypted: OnEncrypted = "raise"
    on_corrupt: OnCorrupt = "raise"
    check_checksums: bool = True
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    values: Values = "bytes"
    schema_version: "int | str | SchemaInfo | dict[str, Any] | pa.DataType | pa.Schema" = "latest"
    flatten: bool = False
    on_undecodable: OnUndecodable = "raise"
    threads: int | None = None

    def __post_init__(self) -> None:
        for name in ("start_time", "end_time"):
            object.__setattr__(self, name, milliseconds_of(getattr(self, name)))
        if self.columns is not None and not isinstance(self.columns, str):
            object.__setattr__(self, "columns", tuple(self.columns))
        self._require_choices()
        self._require_numbers()
        self._require_range()
        self._require_of_values()
        if self.key is not None and not isinstance(self.key, str | bytes):
            raise InvalidOptionError("expected text or bytes", key=f"key={self.key!r}")

    @classmethod
    def of(cls, given: "ScanOptions | None" = None, **keywords: Any) -> "ScanOptions":  # noqa: ANN401  (those of `ScanKeywords`)
        """Return options from keywords, which replace those of ``given``; raises `InvalidOptionError` for an unknown name."""
        for name in keywords:
            if name not in SCAN_OPTIONS:
                raise InvalidOptionError.unknown(name, SCAN_OPTIONS)
        return cls(**keywords) if given is None else replace(given, **keywords)

    @property
    def start_ms(self) -> int | None:
        """The start of the range of publish times, ms since 1970 UTC."""
        assert self.start_time is None or isinstance(self.start_time, int)  # noqa: S101  (`__post_init__`)
        return self.start_time

    @property
    def end_ms(self) -> int | None:
        """The end of the range of publish times, ms since 1970 UTC."""
        assert self.end_time is None or isinstance(self.end_time, int)  # noqa: S101  (`__post_init__`)
        return self.end_time

    @property
    def described(self) -> dict[str, Any]:
        """All options that affect the rows, except columns, values and the contents of keys, as JSON values."""
        where = None if self.where is None else sha256(pickle.dumps(self.where)).hexdigest()
        names = (
            "clock_slack_ms",
            "transactions",
            "include_markers",
            "on_encrypted",
            "on_corrupt",
            "check_checksums",
            "max_message_bytes",
        )
        return {
            "start_ms": self.start_ms,
            "end_ms": self.end_ms,
            "key": None if self.key is None else repr(self.key),
            "where": where,
            "limit": self.limit,
            "private_keys": sorted(self.private_keys or ()),
            **{name: getattr(self, name) for name in names},
        }

    def with_bytes(self) -> "ScanOptions":
        """Return the options of the same scan with values as bytes."""
        return replace(self, values="bytes", schema_version="latest", flatten=False, on_undecodable="raise")

    def of_messages(self) -> "ScanOptions":
        """Return only the options that apply to one message."""
        return ScanOptions(**{name: getattr(self, name) for name in OF_MESSAGES})

    def require_of_parts(self) -> None:
        """Raise `InvalidOptionError` for options that a part of a topic, such as a mounted file or a task's share, cannot have."""
        if self.transactions == "readable":
            raise InvalidOptionError(
                "readable messages end at the first open transaction of the whole topic, which is unknown for a part of it; use this "
                "value with a scan, `head` or `count`",
                key="transactions='readable'",
            )
        if self.limit is not None:
            raise InvalidOptionError(
                "applies to a whole topic, not to parts that are read separately", key=f"limit={self.limit}"
            )

    def require_of_files(self) -> None:
        """Raise `InvalidOptionError` for options that tables as files cannot have: a damaged one must not appear whole."""
        self.require_of_parts()
        if self.on_undecodable == "skip":
            raise InvalidOptionError(
                "a file of the tree contains all messages; use 'null' to leave out their values, or topic.scan(on_undecodable='skip') "
                "to leave out the messages",
                key="on_undecodable='skip'",
            )
        if self.on_corrupt != "raise":
            raise InvalidOptionError(
                "a file of the tree is complete, or reading it fails; topic.scan(on_corrupt='skip') skips damaged entries",
                key=f"on_corrupt={self.on_corrupt!r}",
            )

    def _require_choices(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidOptionError(f"expected one of {', '.join(choices)}", key=f"{name}={getattr(self, name)!r}")
        for name in ("include_markers", "check_checksums", "flatten"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidOptionError("expected True or False", key=f"{name}={getattr(self, name)!r}")

    def _require_numbers(self) -> None:
        _require_number("clock_slack_ms", self.clock_slack_ms, 0, "whole milliseconds")
        _require_number("max_message_bytes", self.max_message_bytes, 1, "a number of bytes")
        if self.limit is not None:
            _require_number("limit", self.limit, 0, "a number of rows")
        if self.threads is not None:
            _require_number("threads", self.threads, 1, "a number of threads")

    def _require_range(self) -> None:
        if self.start_ms is not None and self.end_ms is not None and self.start_ms >= self.end_ms:
            reason = f"the time range is empty: it starts at {iso_time(self.start_ms)}, which is not before its end"
            raise InvalidOptionError(reason, key=f"end_time={iso_time(self.end_ms)}")

    def _require_of_values(self) -> None:
        version = self.schema_version
        if self.include_markers and self.values != "bytes":
            raise InvalidOptionError(
                "markers are messages of the broker without values of the topic's schema: read them with values='bytes'",
                key="include_markers",
            )
        if self.values == "json" and isinstance(version, int | str) and version != "latest":
            raise InvalidOptionError(NO_TYPE_OF_JSON, key=f"schema_version={version!r}"[:_SHOWN])
        if isinstance(version, str) and version not in {"latest", "each"}:
            raise InvalidOptionError(NO_VERSION, key=f"schema_version={version!r}"[:_SHOWN])
        if self.values == "bytes":
            for name, default in (("schema_version", "latest"), ("flatten", False), ("on_undecodable", "raise")):
                value = getattr(self, name)
                if not isinstance(value, type(default)) or value != default:
                    raise InvalidOptionError(
                        "applies to values as columns: pass values=typed, json or auto too", key=name
                    )


SCAN_OPTIONS = tuple(one.name for one in fields(ScanOptions))
"""The names of all options."""


def _require_number(name: str, value: object, least: int, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidOptionError(f"expected {what}, {least} or more", key=f"{name}={value!r}")
