"""``ledgerfs lifecycle simulate``: what a policy would make of a cluster in the days to come."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.cluster.source import say_not_known
from ledgerfs.cli.commands import command
from ledgerfs.cli.options import json_option, storage_option, storage_options_of
from ledgerfs.cli.output import human_size, print_json, progress, say, show, table
from ledgerfs.cli.parameter_types import Duration, LocalPath
from ledgerfs.ledgers.time_arguments import iso_time

if TYPE_CHECKING:
    from ledgerfs.clusters.survey import Survey
    from ledgerfs.lifecycle.simulation.of_cluster import ClusterSimulated
    from ledgerfs.lifecycle.simulation.prices import Prices

_HEADS = ("day", "hot", "hot, not offloaded", "cold", "uploaded", "highest rate", "backlog", "requests")


@command()
@click.argument("dump", metavar="DUMP")
@click.argument("policy", metavar="POLICY", type=LocalPath())
@click.option(
    "--days", type=click.IntRange(1, 3650), default=30, show_default=True, metavar="NUMBER", help="How far to look."
)
@click.option(
    "--history", type=Duration(), default="14d", show_default=True, metavar="TIME",
    help="How much of the past tells what is written: of this time before the dump, or since a topic's first ledger.",
)  # fmt: skip
@click.option(
    "--price", "prices", multiple=True, metavar="NAME=NUMBER",
    help="hot or cold: of a GiB for a month of 730 h, of hot ones each copy on a bookie; put: of 1,000 requests that write. 0 unless told; "
    "may be repeated.",
)  # fmt: skip
@click.option(
    "--plot", type=LocalPath(), metavar="FILE", help="Also draw it, into a file .svg or .png; needs ledgerfs[plot]."
)
@storage_option
@json_option
@click.pass_context
def simulate(
    context: click.Context,
    /,
    *,
    dump: str,
    policy: Path,
    days: int,
    history: float,
    prices: tuple[str, ...],
    plot: Path | None,
    as_json: bool,
) -> None:
    """Show what a policy would make of a cluster in the next days: storage hot and cold, uploads, requests, costs.

    DUMP is a file that `ledgerfs cluster dump` wrote, or a dump that it keeps beside a bucket. What is written to each topic goes on as its
    ledgers and the times at which they were closed tell it, and the rules of POLICY over the cluster's own policies hold from the moment of
    the dump on. Uploads are as fast as [service] in POLICY lets them be. Nothing is read but the files.

    \b
    Examples:
      ledgerfs lifecycle simulate dump.json.zst policy.toml --days 30
      ledgerfs lifecycle simulate dump.json.zst policy.toml --plot month.svg
      ledgerfs lifecycle simulate dump.json.zst policy.toml --price hot=0.08 --price cold=0.023 --price put=0.005
      ledgerfs lifecycle simulate dump.json.zst policy.toml --json | jq '.days[-1].hot_bytes'
    """
    # These import numpy, which --help does not need.
    from ledgerfs.clusters.surveying import survey_dump
    from ledgerfs.lifecycle.policy.policy_file import read_policy_file
    from ledgerfs.lifecycle.simulation.of_cluster import simulate_cluster
    from ledgerfs.lifecycle.simulation.plot import require_plotting, write_plot
    from ledgerfs.lifecycle.simulation.prices import parse_prices

    told, file = parse_prices(prices), read_policy_file(policy)
    if plot is not None:
        require_plotting(plot)
    with progress() as update:
        survey = survey_dump(dump, update, storage_options_of(context))
    found = simulate_cluster(survey, file, days, history)
    if as_json:
        print_json({"dump": dump, "policy": str(policy), **_as_json(survey, found, told)})
    else:
        _show_days(found, told)
    _say_result(dump, found, told, days)
    if plot is not None:
        write_plot(found.simulated, plot, f"{dump.rpartition('/')[2]} under {policy.name}, {days} days")
        say(f"drawn: {plot}")
    say_not_known(context, survey, 0)


def _show_days(found: "ClusterSimulated", prices: "Prices") -> None:
    heads = (*_HEADS, "cost") if prices.are_told else _HEADS
    shown = table(*heads, right=heads)
    for day in _days(found, prices):
        cells = [
            f"{day['day']:g}",
            *(human_size(day[name]) for name in ("hot_bytes", "hot_bytes_without", "cold_bytes", "uploaded_bytes")),
            f"{human_size(day['highest_rate'])}/s",
            human_size(day["backlog_bytes"]),
            f"{day['requests']:,}",
        ]
        shown.add_row(*cells, *([f"{day['cost']:,.2f}"] if prices.are_told else []))
    show(shown)


def _days(found: "ClusterSimulated", prices: "Prices") -> list[dict[str, Any]]:
    """Return what is at the end of each day, after the beginning, and what happened in it."""
    from ledgerfs.lifecycle.simulation.simulation import DAY_S

    run, costs = found.simulated, found.simulated.costs(prices)
    rows = [0, *run.rows_of_days()]
    days = []
    for before, row in zip([0, *rows], rows, strict=False):
        highest = run.highest_rates[before + 1 : row + 1]
        days.append(
            {
                "day": float(run.times[row]) / DAY_S,
                "hot_bytes": round(run.hot[row]),
                "hot_bytes_without": round(run.hot_without[row]),
                "cold_bytes": round(run.cold[row]),
                "written_bytes": round(run.written[row] - run.written[before]),
                "uploaded_bytes": round(run.sent[row] - run.sent[before]),
                "highest_rate": round(highest.max(initial=0.0)),
                "backlog_bytes": round(run.backlog[row]),
                "requests": round(run.requests[row] - run.requests[before]),
                "cost": float(costs[row] - costs[before]),
            }
        )
    return days


def _as_json(survey: "Survey", found: "ClusterSimulated", prices: "Prices") -> dict[str, Any]:
    from math import isfinite

    from ledgerfs.lifecycle.simulation.prices import MONTH_S
    from ledgerfs.lifecycle.simulation.simulation import STEP_S

    arrivals, rates, run = found.arrivals, found.rates, found.simulated
    return {
        "read": iso_time(survey.read_ms),
        "days": _days(found, prices),
        "totals": {
            "written_bytes": round(run.written[-1]),
            "uploaded_bytes": round(run.sent[-1]),
            "requests": round(run.requests[-1]),
            "cost": float(run.costs(prices)[-1]),
            "most_backlog_bytes": round(run.backlog.max()),
            "highest_rate": round(run.highest_rates.max()),
            "too_late_bytes": round(run.too_late),
        },
        "assumed": {
            "topics": int(arrivals.rows.size),
            "written_bytes_per_second": round(found.written_per_second),
            "history_seconds": round(arrivals.history_s),
            "silent_topics": arrivals.silent,
            "topics_of_one_ledger": arrivals.one_ledger,
            "topics_with_unknown_last_ledger": arrivals.unknown,
            "topics_held_back": arrivals.held_back,
            "offloaded_topics": found.offloaded_topics,
            "topics_without_bucket": found.no_bucket,
            "floor_rate": round(rates.floor),
            "ceiling_rate": round(rates.ceiling) if isfinite(rates.ceiling) else None,
            "step_seconds": round(STEP_S),
            "month_seconds": round(MONTH_S),
            "prices": {"hot": prices.hot, "cold": prices.cold, "put": prices.put},
        },
    }


def _say_result(dump: str, found: "ClusterSimulated", prices: "Prices", days: int) -> None:
    """Say the sums, and what was assumed, on standard error."""
    run, arrivals = found.simulated, found.arrivals
    say(
        f"{dump}: {human_size(round(found.written_per_second))}/s are written to {arrivals.rows.size:,} topics, of which "
        f"{found.offloaded_topics:,} are offloaded; after {days} days {human_size(round(run.hot[-1]))} hot "
        f"(without offloading {human_size(round(run.hot_without[-1]))}) and {human_size(round(run.cold[-1]))} cold"
    )
    cost = f"; cost {run.costs(prices)[-1]:,.2f}" if prices.are_told else ""
    say(
        f"uploaded: {human_size(round(run.sent[-1]))} in {round(run.requests[-1]):,} requests, at most "
        f"{human_size(round(run.highest_rates.max()))}/s, backlog at most {human_size(round(run.backlog.max()))}{cost}"
    )
    if run.too_late:
        late = human_size(round(run.too_late))
        say(f"{late} were past their retention before they were uploaded: the rate is too low for what is written")
    assumed = {
        "are silent": arrivals.silent,
        "have one ledger": arrivals.one_ledger,
        "have a last ledger of unknown size": arrivals.unknown,
        "are held back by subscriptions, which is assumed to go on": arrivals.held_back,
        "are offloaded, but the policy file has no bucket for them": found.no_bucket,
    }
    parts = [f"{count:,} topics {what}" for what, count in assumed.items() if count]
    if parts:
        say(f"assumed: {'; '.join(parts)}")
