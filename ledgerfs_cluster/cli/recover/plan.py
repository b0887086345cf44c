"""``ledgerfs recover plan``: what would be restored, and what will be missing."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.output import progress
from ledgerfs_cluster.cli.recover.outcome import print_report
from ledgerfs_cluster.cli.recover.request import (
    how_options,
    into_cluster,
    into_of,
    into_options,
    lost_of,
    lost_options,
)

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket


@command()
@lost_options
@into_options(required=False)
@how_options
@click.pass_context
def plan(
    context: click.Context,
    /,
    bucket: "Bucket",
    **options: Any,  # noqa: ANN401  (click's)
) -> None:
    """Show what `ledgerfs recover run` would restore, and what will be missing and why; nothing is written.

    A line is a topic: its ledgers and entries in BUCKET, and what will be missing, by a dump of the lost cluster; without one nobody knows
    what was never offloaded. With --into and --admin it is told, too, what the new cluster has already, and which namespaces, policies and
    schemas are to be set. Exit code 0 if all topics can be restored; what is missing of them does not change that. 1 if one cannot.

    \b
    Examples:
      ledgerfs recover plan s3://tier                                                          # with the newest dump in the bucket
      ledgerfs recover plan s3://tier --dump dump.json.zst --into pulsar+zk://new:2181 --admin http://new:8080
      ledgerfs recover plan s3://tier --topics 'public/orders/.*' --json
    """
    from ledgerfs_cluster.recovery.running.recovery import plan as plan_of

    if (options["into"] is None) != (options["admin"] is None):
        raise click.UsageError("--into and --admin are the same cluster's: name both, or none")
    cluster = None if options["into"] is None else into_cluster(context, options)
    what = lost_of(context, bucket, options, cluster)
    target = None
    if cluster is not None:
        target = into_of(context, what, cluster, options, looks_for_transactions=False)
    with progress() as update:
        found = plan_of(what, target, update)
    print_report(context, found, as_json=options["as_json"])
