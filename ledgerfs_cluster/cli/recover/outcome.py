"""What a plan or a run is printed as: a line a topic, what is missing, what is to be known, and the exit code."""

from typing import TYPE_CHECKING

import click

from ledgerfs.cli.output import human_size, print_json, say, show, table
from ledgerfs.display import printable

if TYPE_CHECKING:
    from ledgerfs_cluster.recovery.report import Report

_MOST_PARTS = 20


def print_report(context: click.Context, report: "Report", *, as_json: bool) -> None:
    """Print a report, and end with exit code 1 unless each wanted topic is as it should be."""
    if as_json:
        print_json(report.as_json())
    else:
        _show(report)
    wrong = [one for one in report.topics if not one.is_well]
    if wrong:
        say(f"{len(wrong):,} of {len(report.topics):,} topics are not as they should be")
        context.exit(1)


def _show(report: "Report") -> None:
    from ledgerfs_cluster.recovery.report import missing_text, part_text, parts_to_show

    drawn = table("TOPIC", "IN THE NEW CLUSTER", "STATE", "LEDGERS", "ENTRIES", "BYTES", "MISSING", "SUBSCRIPTIONS", "COMPARED",
                  right=("LEDGERS", "ENTRIES", "BYTES", "SUBSCRIPTIONS"))  # fmt: skip
    for line in report.topics:
        plan = line.plan
        drawn.add_row(
            printable(plan.topic), "=" if plan.target == plan.source else printable(plan.target_topic), line.outcome.value,
            f"{len(plan.ledgers):,}", f"{plan.entries:,}", human_size(plan.size), missing_text(plan), f"{line.subscriptions:,}",
            "-" if line.compared is None else str(line.compared),
        )  # fmt: skip
    show(drawn)
    for line in report.topics:
        parts = parts_to_show(line.plan)
        said = [] if line.reason is None else [line.reason]
        said += [f"missing: {part_text(part)}" for part in parts[:_MOST_PARTS]]
        if len(parts) > _MOST_PARTS:
            said.append(f"missing: {len(parts) - _MOST_PARTS:,} more parts; --json has them all")
        for sentence in (*said, *line.remarks):
            say(f"{line.plan.topic}: {sentence}")
    for remark in report.remarks:
        say(remark)
    if report.by_hand:
        say("left to be set by hand, once all is checked:")
        for one in report.by_hand:
            say(f"  {one}")
