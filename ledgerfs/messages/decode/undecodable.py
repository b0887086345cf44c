"""Parts of messages that columns cannot hold: values that contradict their schema, and times out of range."""

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Values of one version, or times of one column, that could not be decoded for one reason.

    Attributes
    ----------
    version
        The number that the messages name; None without one, and for times.
    reason
        Reason, in words that follow the name of a message.
    count
        Number of values or times.
    first
        The id of the first in the order of the rows, ``ledger:entry`` or ``ledger:entry:index``; of several partitions, in the first
        one that has any.
    is_error
        False for values without a named schema, and for encrypted ones that ``on_encrypted`` allows: they are not an error.
    raw
        The number in place of a time in the first message, in Pulsar's unit, ms; None for values.

    """

    version: int | None
    reason: str
    count: int
    first: str
    is_error: bool = True
    raw: int | None = None


def counts_of(undecodable: Iterable[Undecodable]) -> tuple[int, int]:
    """Return how many errors there are, and how many values without a named schema."""
    errors = unnamed = 0
    for one in undecodable:
        errors += one.count * one.is_error
        unnamed += one.count * (not one.is_error)
    return errors, unnamed


def add_undecodable(undecodable: list[Undecodable], new: Undecodable) -> None:
    """Add to the record of the same version and reason, or as a new one."""
    for place, one in enumerate(undecodable):
        if (one.version, one.reason, one.is_error) == (new.version, new.reason, new.is_error):
            undecodable[place] = replace(one, count=one.count + new.count)
            return
    undecodable.append(new)


def message_id(ledger_id: int, entry_id: int, batch_index: int | None) -> str:
    """Return the id of a message: ``ledger:entry``, in a batch ``ledger:entry:index``."""
    return f"{ledger_id}:{entry_id}" if batch_index is None else f"{ledger_id}:{entry_id}:{batch_index}"
