"""``ledgerfs bookie space``: what the logs of bookies hold, what their collector would free, and who holds the rest."""

import math
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.bookie.source import LookedAt, disks_options, look_at
from ledgerfs.cli.commands import command
from ledgerfs.cli.options import json_option
from ledgerfs.cli.output import human_size, print_json, say, show, table
from ledgerfs.cli.parameter_types import Size
from ledgerfs.display import printable, span

if TYPE_CHECKING:
    from ledgerfs.disks.collector.rules import CollectorRules, Throttle
    from ledgerfs.disks.collector.space import FateSum, LogSpace
    from ledgerfs.disks.log_uses import DirectoryUse

_BAR = 12
_MOST_HOLDERS = 10


@command()
@disks_options
@click.option(
    "--minor",
    type=click.FloatRange(0, 1),
    default=0.2,
    show_default=True,
    help="minorCompactionThreshold of the bookie.",
)
@click.option(
    "--major",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="majorCompactionThreshold of the bookie.",
)
@click.option(
    "--rate",
    type=Size(),
    help="Bytes a second that compaction may read, such as 10MiB.  [default: 1000 entries a second]",
)
@click.option(
    "--small", type=click.FloatRange(0, 1, min_open=True), default=0.1, show_default=True,
    help="A live ledger is small whose share of a log is below this.",
)  # fmt: skip
@json_option
@click.pass_context
def space(
    context: click.Context,
    disks: tuple[str, ...],
    *,
    minor: float,
    major: float,
    rate: int | None,
    small: float,
    as_json: bool,
) -> None:
    """Show what each entry log holds, and what would free its space.

    A bookie deletes a log when none of its ledgers is in the metadata any more, and compacts one whose live share is below a threshold: it
    writes what lives again, and deletes the log. The bar is the live share. "Fate" is deleted (by the next run), minor or major (by such a
    compaction), current (being written, never collected) or kept. Without --metadata nothing is known to be dead.

    Below come, in the order in which a bookie does it, what a run with major compaction frees, writes again, and how long it takes under
    the rate; and scattered logs, which only small live ledgers hold: the topics that hold most, and what would be freed if these were
    offloaded and deleted from BookKeeper, or rolled over and trimmed.

    \b
    Examples:
      ledgerfs bookie space /var/lib/bookie1 --metadata pulsar+zk://zk1:2181
      ledgerfs bookie space /var/lib/bookie1 --metadata dump.json.zst --major 0.8 --rate 50MiB
      ledgerfs bookie space /var/lib/bookie1 --metadata dump.json.zst --json | jq '.[].holders'
    """
    from ledgerfs.disks.collector.rules import CollectorRules, Throttle
    from ledgerfs.disks.collector.space import log_space
    from ledgerfs.disks.log_uses import log_uses

    rules = CollectorRules(minor_threshold=minor, major_threshold=major)
    throttle = rules.throttle if rate is None else Throttle(is_by_bytes=True, per_second=rate)
    seen = look_at(context, disks)
    live = None if seen.known is None else seen.known.ids
    told = []
    for directory in log_uses(seen.index):
        found = log_space(directory.use, rules, live)
        one = _as_json(directory, found, throttle) | {"holders": _holders(seen, directory, found, rules, small)}
        told.append(one)
        if not as_json:
            _show(one)
    if as_json:
        print_json(told)
    if live is None:
        say("without --metadata no ledger is known to be dead")


def _as_json(directory: "DirectoryUse", found: "LogSpace", throttle: "Throttle") -> dict[str, Any]:
    from ledgerfs.disks.collector.compaction import plan, scan_seconds
    from ledgerfs.disks.collector.space import Fate

    run = plan(found, throttle)
    logs = [
        {
            "id": f"{log_id:x}",
            "path": directory.paths[row],
            "size": int(found.use.file_sizes[row]),
            "entries_bytes": int(found.totals[row]),
            "live_bytes": int(found.live_sizes[row]),
            "live_share": float(found.usages[row]),
            "ledgers": int(found.ledgers[row]),
            "live_ledgers": int(found.live_ledgers[row]),
            "fate": Fate(int(found.fates[row])).name.lower(),
            "why": found.why(row),
            "freed": int(found.freed[row]),
            "rewritten": int(found.rewritten[row]),
        }
        for row, log_id in enumerate(found.use.log_ids.tolist())
    ]
    steps = [
        {"id": f"{int(found.use.log_ids[row]):x}", "freed": freed, "rewritten": rewritten, "ends_s": _number(ends_s)}
        for row, freed, rewritten, ends_s in zip(
            run.rows.tolist(), run.freed.tolist(), run.rewritten.tolist(), run.ends_s.tolist(), strict=True
        )
    ]
    return {
        "bookie": directory.bookie,
        "folder": directory.folder,
        "size": int(found.use.file_sizes.sum()),
        "live_bytes": int(found.live_sizes.sum()),
        "is_known": found.has_metadata,
        "logs": logs,
        "sums": {fate.name.lower(): _sum_as_json(found.sum_of(fate)) for fate in Fate},
        "run": steps,
        "room": run.room,
        "scan_s": _number(scan_seconds(found, throttle)),
    }


def _holders(
    seen: LookedAt, directory: "DirectoryUse", found: "LogSpace", rules: "CollectorRules", small: float
) -> list[dict[str, Any]]:
    """Return who holds scattered logs, and what the collector would free more without them."""
    import numpy as np

    from ledgerfs.disks.collector.scattered import NO_NAME, LedgerNames, held_by_names, scattered
    from ledgerfs.disks.collector.space import if_dead

    logs = scattered(found, small)
    if not logs.log_rows.size or seen.known is None:
        return []
    ids = np.unique(logs.ledger_ids)
    owners = [seen.owner(ledger_id) for ledger_id in ids.tolist()]
    names = sorted(set(owners))
    rows = np.searchsorted(names, owners).astype(np.int64)
    holders = held_by_names(logs, LedgerNames(ids, rows))
    told = []
    for at, key in enumerate(holders.keys.tolist()[:_MOST_HOLDERS]):
        own = ids[rows == key]
        effect = if_dead(directory.use, rules, seen.known.ids, own)
        told.append(
            {
                "owner": "?" if key == NO_NAME else names[key],
                "ledgers": own.tolist(),
                "logs": int(holders.logs[at]),
                "live_bytes": int(holders.sizes[at]),
                "held_bytes": int(holders.hostage[at]),
                "held_alone_bytes": int(holders.hostage_alone[at]),
                "freed_if_gone": effect.freed,
            }
        )
    return told


def _sum_as_json(one: "FateSum") -> dict[str, Any]:
    sizes = {name: getattr(one, name) for name in ("logs", "file_size", "freed", "rewritten")}
    return {**sizes, "entries": None if one.entries < 0 else one.entries, "seconds": _number(one.seconds)}


def _number(seconds: float) -> float | None:
    return None if math.isnan(seconds) else seconds


def _show(told: dict[str, Any]) -> None:
    share = told["live_bytes"] / told["size"] if told["size"] else 0.0
    lives = f", {share:.0%} of it live" if told["is_known"] else ""
    click.echo(
        printable(f"{told['bookie']}  {told['folder']}: {len(told['logs']):,} logs, {human_size(told['size'])}{lives}")
    )
    logs = table(
        "log",
        "bytes",
        "live",
        "",
        "ledgers",
        "fate",
        "frees",
        "costs",
        "why",
        right=("bytes", "live", "ledgers", "frees", "costs"),
    )
    for one in told["logs"]:
        logs.add_row(
            one["id"],
            human_size(one["size"]),
            f"{one['live_share']:.1%}",
            _bar(one["live_share"]),
            f"{one['live_ledgers']:,}/{one['ledgers']:,}",
            one["fate"],
            human_size(one["freed"]) if one["freed"] else "-",
            human_size(one["rewritten"]) if one["rewritten"] else "-",
            one["why"],
        )
    show(logs)
    _show_run(told)
    if told["holders"]:
        click.echo("held by small live ledgers:")
        holders = table(
            "owner",
            "ledgers",
            "logs",
            "live",
            "held",
            "alone",
            "freed if gone",
            right=("ledgers", "logs", "live", "held", "alone", "freed if gone"),
        )
        for one in told["holders"]:
            sizes = (
                human_size(one[name]) for name in ("live_bytes", "held_bytes", "held_alone_bytes", "freed_if_gone")
            )
            holders.add_row(printable(one["owner"]), f"{len(one['ledgers']):,}", f"{one['logs']:,}", *sizes)
        show(holders)
    click.echo()


def _show_run(told: dict[str, Any]) -> None:
    if not told["run"]:
        click.echo("nothing would be freed now")
        return
    last = told["run"][-1]
    seconds = "an unknown time" if last["ends_s"] is None else span(round(1000 * last["ends_s"]))
    order = ", ".join(one["id"] for one in told["run"][:20]) + (", …" if len(told["run"]) > 20 else "")
    frees, writes = human_size(last["freed"]), human_size(last["rewritten"])
    click.echo(f"a run with major compaction frees {frees} and writes {writes} again, in {seconds}: logs {order}")
    if told["room"]:
        click.echo(f"it needs {human_size(told['room'])} free at its begin")
    if told["scan_s"]:
        click.echo(
            f"after a start the bookie first scans logs without a ledgers map: {span(round(1000 * told['scan_s']))}"
        )


def _bar(share: float) -> str:
    full = round(share * _BAR)
    return "█" * full + "░" * (_BAR - full)
