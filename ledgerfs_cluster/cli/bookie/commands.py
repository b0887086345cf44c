"""``ledgerfs bookie space``: live and dead bytes of logs, and what garbage collectors would free."""

import os
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.options import json_option, metadata_option, storage_option, storage_options_of
from ledgerfs.cli.output import print_json, progress, say, show, table
from ledgerfs.display import human_size, printable

if TYPE_CHECKING:
    from ledgerfs_cluster.disks.index import DiskIndex
    from ledgerfs_cluster.disks.known_ledgers import KnownLedgers

_MOST_OWNERS = 20


def _read(context: click.Context, disks: tuple[str, ...]) -> "tuple[DiskIndex, KnownLedgers | None]":
    """Return the index of the disks, and the metadata or None without --metadata; raises as `DiskPlace.read`."""
    # These import numpy and numba, which --help does not need.
    from ledgerfs_cluster.disks.filesystem import DisksFileSystem, url_of
    from ledgerfs_cluster.disks.place import DiskPlace

    urls = [disk if "://" in disk else url_of((os.path.abspath(disk),)) for disk in disks]  # noqa: PTH100
    rest = ",".join(DisksFileSystem._strip_protocol(url) for url in urls)  # noqa: SLF001  (fsspec's name for it)
    with progress(in_bytes=True) as update:
        return DiskPlace(DisksFileSystem(**storage_options_of(context)).disks(rest)).read(update)


@command()
@click.argument("disks", metavar="DISK...", nargs=-1, required=True)
@storage_option
@metadata_option
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
@json_option
@click.pass_context
def space(context: click.Context, disks: tuple[str, ...], *, minor: float, major: float, as_json: bool) -> None:
    """Show live and dead bytes of entry logs.

    Shows what the next garbage collection of the bookie would free. A bookie deletes a log when no ledger in it is in the metadata.
    It compacts a log whose live share is below a threshold: it writes the live entries again, and deletes the log.

    "Fate" of a log: deleted (by the next run), minor or major (by such a compaction), current (still written), unreadable or kept
    (both stay). Without --metadata all ledgers count as live.

    The second table lists the topics and subscriptions with most bytes. --json lists all of them, and the ledgers of each log.

    \b
    Examples:
      ledgerfs bookie space /var/lib/bookie1 --metadata pulsar+zk://zk1:2181
      ledgerfs bookie space /var/lib/bookie1 --metadata dump.json.zst --major 0.8
      ledgerfs bookie space /var/lib/bookie1 --metadata dump.json.zst --json | jq '.[].owners'
    """
    from ledgerfs_cluster.disks.log_space import space_reports

    if major and minor >= major:
        raise click.BadParameter(
            "--minor must be below --major: a bookie does not start with such thresholds", ctx=context
        )
    index, known = _read(context, disks)
    live = set(index.ledger_ids().tolist())
    if known is not None:
        live &= known.nodes.keys()
    directories = space_reports(index, minor, major, live, cache(known.owner) if known is not None else lambda _: "?")
    if as_json:
        print_json(directories)
    else:
        for directory in directories:
            _show(directory)
    if known is None:
        say("dead ledgers are unknown; pass --metadata pulsar+zk://host:port, or a dump of the cluster")


def _show(directory: dict[str, Any]) -> None:
    whole = f"{human_size(directory['size'])}, {human_size(directory['dead_bytes'])} of it dead"
    click.echo(printable(f"{directory['bookie']}  {directory['folder']}: {len(directory['logs']):,} logs, {whole}"))
    numbers = ("bytes", "live", "dead", "ledgers")
    logs = table("log", *numbers, "fate", "frees", right=(*numbers, "frees"))
    for one in directory["logs"]:
        live = sum(ledger["is_live"] for ledger in one["ledgers"])
        sizes = [human_size(one[name]) if one[name] else "-" for name in ("live_bytes", "dead_bytes", "freed")]
        logs.add_row(
            one["id"], human_size(one["size"]), *sizes[:2], f"{live:,}/{len(one['ledgers']):,}", one["fate"], *sizes[2:]
        )
    show(logs)
    owners = table("owner", "ledgers", "logs", "bytes", right=("ledgers", "logs", "bytes"))
    for one in directory["owners"][:_MOST_OWNERS]:
        name = one["owner"] if one["is_live"] else "deleted ledgers"
        owners.add_row(printable(name), f"{one['ledgers']:,}", f"{one['logs']:,}", human_size(one["bytes"]))
    show(owners)
    deleted, minor, major = (directory["frees"][fate] for fate in ("deleted", "minor", "major"))
    click.echo(
        f"the next garbage collection frees {human_size(deleted)}, a minor compaction {human_size(minor)}, "
        f"a major compaction {human_size(minor + major)}"
    )
    click.echo()
