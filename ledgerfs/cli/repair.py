"""``ledgerfs repair``: show and repair damage, from the objects of the bucket alone."""

import re
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.catalog.findings import Severity
from ledgerfs.cli.commands import command
from ledgerfs.cli.group import conclude
from ledgerfs.cli.options import bucket_argument, json_option
from ledgerfs.cli.output import print_json, progress, say
from ledgerfs.display import printable

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.repair import Repair, RepairOutcome, RepairPlan

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(\d{1,9})([smhdw]?)\Z", re.ASCII)


def _seconds(_: click.Context, __: click.Parameter, text: str) -> int:
    match = _DURATION.match(text.strip())
    if match is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 90m, 24h or 7d")
    return int(match[1]) * _UNITS[match[2]]


@command()
@bucket_argument
@click.option("--yes", is_flag=True, help="Repair. Without this nothing is changed.")
@click.option(
    "--older-than", "older_than_s", default="24h", show_default=True, metavar="AGE", callback=_seconds,
    help="Skip younger objects (90m, 24h, 7d): a broker may still write them.",
)  # fmt: skip
@click.option(
    "--ledger", "ledgers", type=click.IntRange(0), multiple=True, metavar="ID",
    help="Only this ledger; may be repeated.",
)  # fmt: skip
@click.option("--topic", metavar="TOPIC", help="Topic of the ledgers of --ledger, if the bucket does not contain it.")
@click.option("--no-metadata", is_flag=True, help="Do not check user metadata, which takes a request for each object.")
@json_option
@click.pass_context
def repair(
    context: click.Context,
    bucket: "Bucket",
    *,
    yes: bool,
    older_than_s: int,
    ledgers: tuple[int, ...],
    topic: str | None,
    no_metadata: bool,
    as_json: bool,
) -> None:
    """Show what can be repaired in a bucket; --yes repairs it.

    Rebuilds lost and unreadable indexes from complete data objects, deletes data objects and indexes beside a complete copy, ends
    unfinished uploads, and restores the user metadata that brokers require. Deletes only objects that are proved to be garbage, and
    prints the reason.

    Exit code 0: nothing is left to do; 1: repairs are pending (without --yes), an action failed, or damage cannot be repaired;
    3: the store refused some objects.

    \b
    Examples:
      ledgerfs repair s3://tier
      ledgerfs repair s3://tier --yes
      ledgerfs repair s3://tier --ledger 58 --topic persistent://public/default/orders --yes
      ledgerfs repair s3://tier --json | jq '.items[] | select(.action != "nothing")'
    """
    if topic is not None and not ledgers:
        raise click.UsageError("--topic needs --ledger: it sets the topic of these ledgers")
    # This imports numba, which --help does not need.
    from ledgerfs.repair import plan_repair

    with progress() as update:
        plan = plan_repair(
            bucket, topic=topic, ledgers=ledgers or None, older_than_s=older_than_s, metadata=not no_metadata, progress=update
        )  # fmt: skip
    outcomes = _carry_out(plan, as_json=as_json) if yes else []
    if as_json:
        print_json(_as_json(plan, outcomes, yes=yes))
    else:
        _print_plan(plan, outcomes, yes=yes)
    is_left = any(item.severity is Severity.DAMAGE for item in plan.left)
    is_undone = any(outcome.error for outcome in outcomes) if yes else bool(plan.to_do)
    is_complete = not any(item.severity is Severity.UNCHECKED for item in plan.left)
    conclude(context, is_sound=not (is_left or is_undone), is_complete=is_complete)


def _carry_out(plan: "RepairPlan", *, as_json: bool) -> "list[RepairOutcome]":
    """Carry out all repairs, and print each when it is done, so that an interrupted command has reported its work."""
    outcomes = []
    for outcome in plan.carry_out():
        outcomes.append(outcome)
        (say if as_json else _echo)(_outcome_line(outcome))
    return outcomes


def _echo(line: str) -> None:
    click.echo(printable(line))


def _print_plan(plan: "RepairPlan", outcomes: "list[RepairOutcome]", *, yes: bool) -> None:
    if not yes:
        for item in plan.to_do:
            _echo(f"would {item.action_name}  {_line(item)}")
    for item in plan.left:
        _echo(f"nothing  {_line(item)}")
    failed = sum(outcome.error is not None for outcome in outcomes)
    if yes:
        _echo(f"done: {len(outcomes) - failed:,}; failed: {failed:,}; no action: {len(plan.left):,}")
        return
    hint = "; pass --yes to repair" if plan.to_do else ""
    _echo(f"to do: {len(plan.to_do):,}; no action possible or needed: {len(plan.left):,}{hint}")


def _line(item: "Repair") -> str:
    whose = f" ({item.topic})" if item.topic else ""
    return f"{item.kind}  {item.key or ''}{': ' if item.key else ''}{item.reason}{whose}"


def _outcome_line(outcome: "RepairOutcome") -> str:
    if outcome.error is None:
        return f"done  {outcome.repair.action_name}  {_line(outcome.repair)}"
    return f"failed  {outcome.repair.action_name}  {outcome.repair.key}: {outcome.error.reason}"


def _as_json(plan: "RepairPlan", outcomes: "list[RepairOutcome]", *, yes: bool) -> dict[str, Any]:
    done = [
        {**one.repair.as_json(), "done": one.error is None, "error": None if one.error is None else one.error.reason}
        for one in outcomes
    ]
    planned = [] if yes else [{**item.as_json(), "done": False, "error": None} for item in plan.to_do]
    left = [{**item.as_json(), "done": False, "error": None} for item in plan.left]
    return {"dry_run": not yes, "items": [*planned, *done, *left]}
