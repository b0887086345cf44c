"""What a plan or a run is printed as: a line a topic, what is missing, what is to be known, and the exit code."""

from typing import TYPE_CHECKING

import click

from ledgerfs.cli.output import human_size, print_json, say, show, table
from ledgerfs.display import printable

if TYPE_CHECKING:
    from ledgerfs.recovery.running.report import Report

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
    from ledgerfs.recovery.running.report import (
        comparison_text,
        missing_text,
        part_text,
        parts_to_tell,
        transaction_texts,
    )

    drawn = table("TOPIC", "IN THE NEW CLUSTER", "STATE", "LEDGERS", "ENTRIES", "BYTES", "MISSING", "SUBSCRIPTIONS", "COMPARED",
                  right=("LEDGERS", "ENTRIES", "BYTES", "SUBSCRIPTIONS"))  # fmt: skip
    for line in report.topics:
        plan = line.plan
        subscriptions = len(plan.former.cursors) if line.done is None else line.done.subscriptions
        drawn.add_row(
            printable(plan.topic), "=" if plan.target == plan.source else printable(plan.target_topic), line.state,
            f"{len(plan.ledgers):,}", f"{plan.entries:,}", human_size(plan.size), missing_text(plan), f"{subscriptions:,}",
            "-" if line.compared is None else comparison_text(line.compared),
        )  # fmt: skip
    show(drawn)
    for line in report.topics:
        if line.why is not None:
            say(f"{line.plan.topic}: {line.why}")
        parts = parts_to_tell(line.plan)
        for part in parts[:_MOST_PARTS]:
            say(f"{line.plan.topic}: missing: {part_text(part)}")
        if len(parts) > _MOST_PARTS:
            say(f"{line.plan.topic}: missing: {len(parts) - _MOST_PARTS:,} more parts; --json has them all")
        for remark in (*line.remarks, *transaction_texts(line)):
            say(f"{line.plan.topic}: {remark}")
    for remark in report.remarks:
        say(remark)
    if report.by_hand:
        say("left to be set by hand, once all is checked:")
        for one in report.by_hand:
            say(f"  {one}")
