"""``ledgerfs recover run``: restoring topics into a new cluster."""

import sys
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.output import progress, say
from ledgerfs.cli.recover.broker_service import broker_check, service_option
from ledgerfs.cli.recover.outcome import print_report
from ledgerfs.cli.recover.request import (
    how_options,
    into_cluster,
    into_of,
    into_options,
    lost_of,
    lost_options,
    open_as_of,
    transaction_options,
)
from ledgerfs.ledgers.time_arguments import milliseconds_of

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.recovery.topics.subscriptions import NewSubscription


@command()
@lost_options
@into_options(required=True)
@how_options
@transaction_options
@click.option(
    "--subscription",
    "subscriptions",
    multiple=True,
    metavar="NAME",
    help="Make this subscription of each topic that has none of this name in the dump; may be repeated.",
)
@click.option(
    "--at",
    default="earliest",
    show_default=True,
    metavar="PLACE",
    help="Where --subscription begins: earliest, latest, or a time (ISO 8601).",
)
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    default=8,
    show_default=True,
    metavar="NUMBER",
    help="How many entries of each topic are compared through brokers, besides the first and the last.",
)
@click.option("--no-compare", is_flag=True, help="Ask brokers for nothing in the end; `ledgerfs recover check` does.")
@service_option
@click.option("--yes", is_flag=True, help="Do it without asking; needed where nobody can answer.")
@click.pass_context
def run(
    context: click.Context,
    /,
    bucket: "Bucket",
    *,
    lost: dict[str, Any],
    into: str,
    admin: str,
    yes: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401  (click's)
) -> None:
    """Have a new cluster serve the topics of BUCKET: each as a whole, or not at all.

    Tenants, namespaces and schemas are made through brokers, ledgers and subscriptions by one commit a topic; in the end brokers are asked
    for entries of each, which are compared. Run it again after whatever ended it: what is restored stays, the rest goes on. Brokers keep
    all that is restored, whatever the former retention was: what is to be set by hand afterwards is printed. Messages of aborted
    transactions stay hidden. docs/operating/recovery.md is a page to follow.

    Exit code 0 if each topic is restored and was compared; 1 if one is not, as is told; 3 if a store, ZooKeeper or a broker refuses.

    \b
    Examples:
      ledgerfs recover run s3://tier --into pulsar+zk://new:2181 --admin http://new:8080
      ledgerfs recover run s3://tier --dump dump.json.zst --disks bookies:///disk1,/disk2 \\
          --into pulsar+zk://new:2181 --admin http://new:8080 --yes
      ledgerfs recover run s3://tier --topics 'public/orders/.*' --as 'public/restored/{topic}' --new-ids \\
          --into pulsar+zk://zk1:2181 --admin http://broker1:8080
      ledgerfs recover run s3://tier --no-dump --subscription billing --at 2026-11-20T00:00:00Z \\
          --into pulsar+zk://new:2181 --admin http://new:8080
    """
    from ledgerfs.recovery.running.recovery import run as restore

    cluster = into_cluster(context, into)
    what = lost_of(context, bucket, lost, cluster)
    if not yes:
        _ask(bucket, into)
    how = {
        "open_as": open_as_of(options),
        "looks_for_transactions": not options["no_transactions"],
        "gives_new_ids": options["new_ids"],
        "subscriptions": _subscriptions(options["subscriptions"], options["at"]),
    }
    target = into_of(context, what, cluster, admin, options, **how)
    check = None
    if not options["no_compare"]:
        check = broker_check(context, cluster, options, has_tls=admin.startswith("https"), sample=options["sample"])
    with progress() as update:
        done = restore(what, target, check, update, say)
    print_report(context, done, as_json=as_json)


def _ask(bucket: "Bucket", into: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(
            "--yes is needed where nobody can answer; `ledgerfs recover plan` shows what would be done"
        )
    click.confirm(
        f"Restore topics of {bucket.store.url} into {into} (`ledgerfs recover plan` shows which)?", abort=True, err=True
    )


def _subscriptions(names: tuple[str, ...], at: str) -> "tuple[NewSubscription, ...]":
    from ledgerfs.recovery.topics.subscriptions import NewSubscription, Start

    starts = {one.value: one for one in Start}
    start = starts[at] if at in starts else milliseconds_of(at)
    assert start is not None  # noqa: S101  (None is of no time at all)
    return tuple(NewSubscription(name, start) for name in names)
