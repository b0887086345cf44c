"""What the options of a scan are called: here, where nothing heavy is imported, since those check names who read no messages yet."""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Literal, TypedDict

from ledgerfs.errors import InvalidOptionError
from ledgerfs.ledgers.time_arguments import Moment

Transactions = Literal["committed", "readable", "all"]
OnEncrypted = Literal["raise", "null", "skip"]
OnCorrupt = Literal["raise", "skip"]
Order = Literal["partition", "publish_time"]
PrivateKeys = Mapping[str, str | bytes | PathLike[str]]
"""Each by its name in Pulsar: PEM, or the path of a PEM file."""


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


MESSAGE_OPTIONS = tuple(MessageOptions.__annotations__)
"""Of `Topic.message`."""

SCAN_OPTIONS = ("columns", *ScanOptions.__annotations__)
"""Of `Topic.scan`, and all that hands its options on to it; `Topic.scan` itself also has ``order``."""

ORDERS: tuple[Order, ...] = ("partition", "publish_time")
"""Of `Topic.scan` of a partitioned topic."""


def require_known(given: Iterable[str], known: Iterable[str] = SCAN_OPTIONS) -> None:
    """Raise `InvalidOptionError` for the first name that is no option; it names the nearest one."""
    names = tuple(known)
    for name in given:
        if name not in names:
            raise InvalidOptionError.unknown(name, names)


def require_of_parts(options: Mapping[str, Any]) -> None:
    """Raise `InvalidOptionError` for what a part of a topic, such as a file of a view or the work of a task, cannot be asked for."""
    if options.get("transactions") == "readable":
        raise InvalidOptionError(
            "what is readable ends at the first open transaction of the whole topic, which a part of it does not know; ask for it "
            "of a scan, of `head` or of `count`",
            key="transactions='readable'",
        )


def require_of_files(options: Mapping[str, Any]) -> None:
    """Raise `InvalidOptionError` for options that tables as files cannot have: what is damaged must not look whole."""
    require_known(options)
    require_of_parts(options)
    if options.get("on_corrupt", "raise") != "raise":
        raise InvalidOptionError(
            "a file of the tree is whole or an error; topic.scan(on_corrupt='skip') reads around damage",
            key=f"on_corrupt={options['on_corrupt']!r}",
        )
