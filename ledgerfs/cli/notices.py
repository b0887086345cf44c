"""Notices on standard error: objects besides ledgers, omissions of a scan, compilation at the first start."""

import sys
from typing import TYPE_CHECKING, Any

from ledgerfs.cli.output import say

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.catalog.catalog import Catalog
    from ledgerfs.export.export import ExportReport
    from ledgerfs.scan.report import ScanReport

_MOST_LINES = 10


def notice(bucket: "Bucket", catalog: "Catalog") -> None:
    """Print one line on standard error: what the bucket contains besides readable ledgers, or that it has no ledgers."""
    # This imports numpy, which --help does not need.
    from ledgerfs.catalog.catalog_rows import is_sound

    others = sum(catalog.others.counts.values())
    if catalog.is_empty:
        if not bucket.has_objects:
            say(f"{bucket.url}: no ledgers")
            return
        found = f"its {others} objects are not ledgers" if others else "the bucket is empty"
        say(f"{bucket.url}: no offloaded ledgers; {found}")
        return
    counts = {
        "damaged ledgers": int((~is_sound(catalog.ledgers)).sum()),
        "ledgers without data": int(catalog.lost.size),
    }
    for fragments in catalog.fragments.values():
        counts |= fragments.counts()
    counts["other keys"] = others
    found = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    if found:
        say(f"{bucket.url}: also {found}; `ledgerfs verify` lists them")


def say_left_out(scan: "ScanReport | ExportReport") -> bool:
    """Print the omissions of a scan or export on standard error, a line for each of the first; return whether there was damage.

    Omissions include values and times that could not be decoded, whether they became null or their messages were skipped.
    """
    for lost in scan.missing[:_MOST_LINES]:
        say(f"{scan.topic}: left out {lost.name}: {lost.why} ({lost.key})")
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
            f"{scan.topic}: {len(scan.incomplete):,} chunked messages lack parts, the first begins at "
            f"{first.ledger_id}:{first.entry_id}"
        )
    undecodable = scan.undecodable
    for value in undecodable[:_MOST_LINES]:
        raw = "" if value.raw is None else f" ({value.raw})"
        say(
            f"{scan.topic}: {value.count:,} values are not decoded, the first in message {value.first}{raw}: {value.reason}"
        )
    if len(undecodable) > _MOST_LINES:
        count = sum(value.count for value in undecodable[_MOST_LINES:])
        say(f"{scan.topic}: {count:,} more values are not decoded, for other reasons")
    return bool(scan.skipped or scan.missing or any(value.is_error for value in undecodable))


def announce_compiling() -> None:
    """Print once, if standard error is a terminal, that a kernel is being compiled; print nothing for kernels from disk.

    Imports numba, so only commands that use it call this.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        return
    from numba.core.event import Listener, register

    class Announcer(Listener):
        is_said = False

        def on_start(self, event: Any) -> None:  # noqa: ANN401, ARG002
            if not self.is_said:
                self.is_said = True
                say("compiling kernels; takes some seconds, only in the first run after an installation")

        def on_end(self, event: Any) -> None:  # noqa: ANN401
            """Print nothing."""

    register("numba:compile", Announcer())  # type: ignore[no-untyped-call]
