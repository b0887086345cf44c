"""``ledgerfs recover run``: restoring topics into a new cluster."""

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.output import progress, say
from ledgerfs_cluster.cli.recover.outcome import print_report
from ledgerfs_cluster.cli.recover.request import (
    how_options,
    into_cluster,
    into_of,
    into_options,
    lost_of,
    lost_options,
    pulsar_service,
    service_option,
)

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket


@command()
@lost_options
@into_options(required=True)
@how_options
@click.option(
    "--no-transactions",
    is_flag=True,
    help="Do not look for transactions: brokers then show aborted messages, if there are any.",
)
@service_option
@click.option("--yes", is_flag=True, help="Do it without asking; needed where nobody can answer.")
@click.pass_context
def run(
    context: click.Context,
    /,
    bucket: "Bucket",
    **options: Any,  # noqa: ANN401  (click's)
) -> None:
    """Have a new cluster serve the topics of BUCKET: each as a whole, or not at all.

    Tenants, namespaces and schemas are made through brokers, ledgers and subscriptions by one commit a topic. Run it again after whatever
    ended it: what is restored stays, the rest goes on. Then `ledgerfs recover check` reads all of it back through brokers. Brokers keep all
    that is restored, whatever the former retention was: what is to be set by hand afterwards is printed. Messages of aborted transactions
    stay hidden, by snapshots that Pulsar's client publishes (pip install 'ledgerfs[pulsar]'). docs/operating/recovery.md is a page to
    follow.

    Exit code 0 if of each topic all is restored that the bucket has; what was lost with the cluster is reported, and changes nothing. 1 if
    a topic is not restored, which is reported; 3 if a store, ZooKeeper or a broker refuses.

    \b
    Examples:
      ledgerfs recover run s3://tier --into pulsar+zk://new:2181 --admin http://new:8080
      ledgerfs recover run s3://tier --dump dump.json.zst --disks bookies:///disk1,/disk2 \\
          --into pulsar+zk://new:2181 --admin http://new:8080 --yes
      ledgerfs recover run s3://tier --topics 'public/orders/.*' --as 'public/restored/{topic}' --new-ids \\
          --into pulsar+zk://zk1:2181 --admin http://broker1:8080
    """
    from ledgerfs_cluster.recovery.running.recovery import run as restore

    cluster = into_cluster(context, options)
    what = lost_of(context, bucket, options, cluster)
    if not options["yes"]:
        _ask(bucket, options["into"])
    service = cache(lambda: pulsar_service(context, cluster, options))
    target = into_of(
        context, what, cluster, options,
        publish=lambda topic, key, data: service().publish(topic, key, data),
        looks_for_transactions=not options["no_transactions"],
    )  # fmt: skip
    with progress() as update:
        done = restore(what, target, update, say)
    print_report(context, done, as_json=options["as_json"])


def _ask(bucket: "Bucket", into: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(
            "--yes is needed where nobody can answer; `ledgerfs recover plan` shows what would be done"
        )
    click.confirm(
        f"Restore topics of {bucket.store.url} into {into} (`ledgerfs recover plan` shows which)?", abort=True, err=True
    )
