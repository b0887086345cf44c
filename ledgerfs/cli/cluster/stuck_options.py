"""The options that tell for how long something may be so until it is called stuck, and what was found stuck."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.parameter_types import Duration
from ledgerfs.cli.traffic_options import Command

if TYPE_CHECKING:
    from ledgerfs.clusters.stuck import StuckLimits

_OPTIONS = (
    ("--max-open", "240m", "Ledgers may be open: the brokers' managedLedgerMaxLedgerRolloverTimeMinutes."),
    ("--inactive", "7d", "Subscriptions may be inactive."),
    ("--max-attempt", "2h", "An attempt to offload may take."),
    ("--max-due", "6h", "Ledgers may be due to be offloaded."),
    ("--max-expired", "10m", "Topics that no broker has loaded may be past their retention."),
)


def stuck_options(command: Command) -> Command:
    """Add an option for each limit; `limits_of` takes them."""
    for name, default, about in reversed(_OPTIONS):
        option = click.option(
            name, type=Duration(), default=default, show_default=True, metavar="TIME", help=f"How long: {about}"
        )
        command = option(command)
    return command


def limits_of(options: dict[str, Any]) -> "StuckLimits":
    """Return the limits that the options tell."""
    # This imports numpy, which --help does not need.
    from ledgerfs.clusters.stuck import StuckLimits

    told = {
        name: round(options[name] * 1000) for name in ("max_expired", "max_open", "inactive", "max_attempt", "max_due")
    }
    return StuckLimits(
        expired_ms=told["max_expired"],
        open_ms=told["max_open"],
        inactive_ms=told["inactive"],
        attempt_ms=told["max_attempt"],
        due_ms=told["max_due"],
    )
