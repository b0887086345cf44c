"""The names of a scan's options: in a module that imports nothing heavy, since names are checked before messages are read."""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Literal, TypedDict, get_args

from ledgerfs.catalog.time_arguments import Moment
from ledgerfs.errors import InvalidOptionError

Transactions = Literal["committed", "readable", "all"]
OnEncrypted = Literal["raise", "null", "skip"]
OnCorrupt = Literal["raise", "skip"]
Order = Literal["partition", "publish_time"]
Values = Literal["bytes", "typed", "json", "auto"]
OnUndecodable = Literal["raise", "null", "skip"]
PrivateKeys = Mapping[str, str | bytes | PathLike[str]]
"""{name of the key in Pulsar: PEM, or the path of a PEM file}."""


class MessageOptions(TypedDict, total=False):
    """Options of `Topic.message`, which `Topic.scan` explains."""

    private_keys: PrivateKeys | None
    on_encrypted: OnEncrypted
    include_markers: bool
    check_checksums: bool
    max_message_bytes: int


class ScanOptions(MessageOptions, total=False):
    """Options of `Topic.scan` besides the columns and the order."""

    start_time: Moment
    end_time: Moment
    clock_slack_ms: int
    transactions: Transactions
    on_corrupt: OnCorrupt
    values: Values
    schema_version: Any
    flatten: bool
    on_undecodable: OnUndecodable


OF_VALUES = ("values", "schema_version", "flatten", "on_undecodable")
"""Options of values as columns: ``values``, and those that mean nothing if it is ``bytes``."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "transactions": get_args(Transactions),
    "on_encrypted": get_args(OnEncrypted),
    "on_corrupt": get_args(OnCorrupt),
    "values": get_args(Values),
    "on_undecodable": get_args(OnUndecodable),
}
"""Values of options that have few, the default first."""

NO_VERSION = "expected the number of a version, 'latest', 'each', or a schema"
NO_TYPE_OF_JSON = (
    "with values='json' the versions of messages do not matter: expected an Avro schema, or an Arrow type; without one, "
    "the columns are inferred"
)
"""Why a ``schema_version`` is refused."""
_SHOWN = 200

SCAN_OPTIONS = ("columns", *ScanOptions.__annotations__)
"""Options of `Topic.scan`, and of everything that passes options on to it; `Topic.scan` itself also has ``order``."""

ORDERS: tuple[Order, ...] = ("partition", "publish_time")
"""Values of ``order`` for a partitioned topic."""


def require_known(given: Iterable[str], known: Iterable[str] = SCAN_OPTIONS) -> None:
    """Raise `InvalidOptionError` for the first unknown name, with the nearest known one."""
    names = tuple(known)
    for name in given:
        if name not in names:
            raise InvalidOptionError.unknown(name, names)


def require_choices(given: Mapping[str, Any]) -> None:
    """Raise `InvalidOptionError` for a value that is not one of those that an option has, and for what would be without effect."""
    for name, choices in CHOICES.items():
        if given.get(name, choices[0]) not in choices:
            raise InvalidOptionError(f"expected one of {', '.join(choices)}", key=f"{name}={given[name]!r}")
    for name in ("include_markers", "check_checksums", "flatten"):
        if not isinstance(given.get(name, True), bool):
            raise InvalidOptionError("expected True or False", key=f"{name}={given[name]!r}")
    if given.get("include_markers") and given.get("values", "bytes") != "bytes":
        raise InvalidOptionError(
            "markers are the broker's own, and have no value of the topic's schema: read them with values='bytes'",
            key="include_markers",
        )
    version = given.get("schema_version", "latest")
    if given.get("values") == "json" and isinstance(version, int | str) and version != "latest":
        raise InvalidOptionError(NO_TYPE_OF_JSON, key=f"schema_version={version!r}"[:_SHOWN])
    if isinstance(version, str) and version not in {"latest", "each"}:
        raise InvalidOptionError(NO_VERSION, key=f"schema_version={version!r}"[:_SHOWN])
    if given.get("values", "bytes") == "bytes":
        _require_of_bytes(given)


def of_bytes(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the same scan with values as they are."""
    return {name: value for name, value in options.items() if name not in OF_VALUES}


def _require_of_bytes(given: Mapping[str, Any]) -> None:
    """Raise `InvalidOptionError` for an option that is of values as columns: where they stay bytes, it would be without effect."""
    for name, default in (("schema_version", "latest"), ("flatten", False), ("on_undecodable", "raise")):
        value = given.get(name, default)
        if not isinstance(value, type(default)) or value != default:
            raise InvalidOptionError("is of values as columns: say values=typed, json or auto as well", key=name)


def require_of_parts(options: Mapping[str, Any]) -> None:
    """Raise `InvalidOptionError` for options that a part of a topic, such as a file of a view or a task's share, cannot have."""
    if options.get("transactions") == "readable":
        raise InvalidOptionError(
            "readable messages end at the first open transaction of the whole topic, which a part of it does not know; use it with a "
            "scan, `head` or `count`",
            key="transactions='readable'",
        )


def require_of_files(options: Mapping[str, Any]) -> None:
    """Raise `InvalidOptionError` for options that tables as files cannot have: a damaged one must not look whole."""
    require_known(options)
    require_choices(options)
    require_of_parts(options)
    if options.get("on_undecodable") == "skip":
        raise InvalidOptionError(
            "a file of the tree has all messages; with 'null' they lack their values, topic.scan(on_undecodable='skip') leaves them out",
            key="on_undecodable='skip'",
        )
    if options.get("on_corrupt", "raise") != "raise":
        raise InvalidOptionError(
            "a file of the tree is whole or an error; topic.scan(on_corrupt='skip') skips damaged entries",
            key=f"on_corrupt={options['on_corrupt']!r}",
        )
