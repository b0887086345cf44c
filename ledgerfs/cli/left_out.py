"""A word on what a scan left out: damaged entries, chunked messages that are not whole."""

from typing import TYPE_CHECKING, Protocol

from ledgerfs.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ledgerfs.ledgers.missing_ledgers import MissingLedger
    from ledgerfs.messages.decode.chunks import Incomplete
    from ledgerfs.messages.decode.entries import Skipped

_MOST_LINES = 10


class LeavesOut(Protocol):
    """What a scan and an export tell when they are done."""

    @property
    def topic(self) -> str:
        """Name of the topic."""
        ...

    @property
    def skipped(self) -> "Sequence[Skipped]":
        """Damaged entries."""
        ...

    @property
    def incomplete(self) -> "Sequence[Incomplete]":
        """Chunked messages of which parts are missing."""
        ...

    @property
    def missing(self) -> "Sequence[MissingLedger]":
        """Ledgers that the bucket cannot deliver."""
        ...


def say_left_out(scan: LeavesOut) -> bool:
    """Say on standard error what a scan left out, the first places each on a line; return whether there was damage."""
    for lost in scan.missing[:_MOST_LINES]:
        say(f"{scan.topic}: left out ledger {lost.ledger_id}: {lost.why} ({lost.key})")
    if len(scan.missing) > _MOST_LINES:
        say(f"{scan.topic}: left out {len(scan.missing) - _MOST_LINES:,} more ledgers")
    for one in scan.skipped[:_MOST_LINES]:
        entries = f"{one.ledger_id}:{one.first_entry}" + (
            f" to {one.ledger_id}:{one.last_entry}" if one.last_entry > one.first_entry else ""
        )
        say(f"{scan.topic}: left out {entries}: {one.reason}")
    if len(scan.skipped) > _MOST_LINES:
        say(f"{scan.topic}: left out entries at {len(scan.skipped) - _MOST_LINES:,} more places")
    if scan.incomplete:
        first = scan.incomplete[0]
        say(
            f"{scan.topic}: {len(scan.incomplete):,} chunked messages lack parts, the first one begins at "
            f"{first.ledger_id}:{first.entry_id}"
        )
    return bool(scan.skipped or scan.missing)
