"""``ledgerfs recover plan``, ``run`` and ``check``: preview a recovery, restore, and read back through brokers."""

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.options import bucket_argument, json_option
from ledgerfs.cli.output import print_json, progress, say, show, table
from ledgerfs.display import human_size, printable
from ledgerfs_cluster.cli.recover.request import (
    into_cluster,
    into_of,
    into_options,
    lost_of,
    lost_options,
    pulsar_service,
    restore_options,
    service_option,
    topics_option,
    wanted_of,
)

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs_cluster.recovery.report import Report


@command()
@lost_options
@into_options(required=False)
@restore_options
@click.pass_context
def plan(
    context: click.Context,
    /,
    bucket: "Bucket",
    **options: Any,  # noqa: ANN401  (click's)
) -> None:
    """Show what a recovery would restore, and what is missing.

    Writes nothing. Each line is a topic: its ledgers and entries in BUCKET, and what will be missing according to a dump of the
    lost cluster. Without a dump, data that was never offloaded is unknown. With --into and --admin it also shows what the new
    cluster has, and which namespaces, policies and schemas will be set.

    Exit code 1: a topic cannot be restored. Missing data does not change the exit code.

    \b
    Examples:
      ledgerfs recover plan s3://tier                                                          # with the newest dump in the bucket
      ledgerfs recover plan s3://tier --dump dump.json.zst --into pulsar+zk://new:2181 --admin http://new:8080
      ledgerfs recover plan s3://tier --topics 'public/orders/.*' --json
    """
    from ledgerfs_cluster.recovery.recovery import plan as plan_of

    if (options["into"] is None) != (options["admin"] is None):
        raise click.UsageError("--into and --admin belong together: pass both (of the same cluster), or neither")
    cluster = None if options["into"] is None else into_cluster(context, options)
    what = lost_of(context, bucket, options, cluster)
    target = None
    if cluster is not None:
        target = into_of(context, what, cluster, options, looks_for_transactions=False)
    with progress() as update:
        found = plan_of(what, target, update)
    _print_report(context, found, as_json=options["as_json"])


@command()
@lost_options
@into_options(required=True)
@restore_options
@click.option(
    "--no-transactions",
    is_flag=True,
    help="Do not look for transactions: brokers then deliver aborted messages.",
)
@service_option
@click.option("--yes", is_flag=True, help="Do not ask; required without a terminal.")
@click.pass_context
def run(
    context: click.Context,
    /,
    bucket: "Bucket",
    **options: Any,  # noqa: ANN401  (click's)
) -> None:
    """Restore the topics of a bucket into a new cluster.

    Restores each topic as a whole, or not at all: tenants, namespaces and schemas through brokers, ledgers and subscriptions by one
    commit for each topic. Run it again after an interruption: restored topics stay, the rest is done. Then `ledgerfs recover check`
    compares. Brokers keep all restored data, whatever the former retention was; settings to change by hand are printed. Messages of
    aborted transactions stay hidden (this needs pip install '.[pulsar]' in a clone). Follow docs/operating/recovery.md.

    Exit code 0: all data of the bucket is restored; data that was lost with the cluster is reported; 1: a topic is not restored,
    which is reported; 3: a store, ZooKeeper or a broker refused.

    \b
    Examples:
      ledgerfs recover run s3://tier --into pulsar+zk://new:2181 --admin http://new:8080
      ledgerfs recover run s3://tier --dump dump.json.zst --into pulsar+zk://new:2181 --admin http://new:8080 --yes
      ledgerfs recover run s3://tier --topics 'public/orders/.*' --as 'public/restored/{topic}' --new-ids \\
          --into pulsar+zk://zk1:2181 --admin http://broker1:8080
    """
    from ledgerfs_cluster.recovery.recovery import run as restore

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
    _print_report(context, done, as_json=options["as_json"])


def _ask(bucket: "Bucket", into: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(
            "there is no terminal to confirm: pass --yes; `ledgerfs recover plan` shows the work first"
        )
    click.confirm(
        f"Restore topics of {bucket.store.url} into {into} (`ledgerfs recover plan` lists them)?", abort=True, err=True
    )


@command()
@bucket_argument
@topics_option
@into_options(required=True)
@service_option
@json_option
@click.pass_context
def check(
    context: click.Context,
    /,
    bucket: "Bucket",
    **options: Any,  # noqa: ANN401  (click's)
) -> None:
    """Compare restored topics with the bucket.

    Reads all of each topic through the new cluster's brokers, as a client does. Each message must arrive once and in order, with
    the position, payload, key, properties and times that the bucket has; messages of aborted transactions must not arrive. Later
    messages of producers are counted, and not compared. --topics matches the former names. The check writes nothing and leaves no
    subscription. It needs pip install '.[pulsar]' in a clone.

    Exit code 1: a difference, or nothing was restored.

    \b
    Examples:
      ledgerfs recover check s3://tier --into pulsar+zk://new:2181 --admin http://new:8080
      ledgerfs recover check s3://tier --into pulsar+zk://new:2181 --admin http://new:8080 --topics 'public/orders/.*'
    """
    from ledgerfs_cluster.recovery.checking.check import Check

    cluster = into_cluster(context, options)
    service = pulsar_service(context, cluster, options)
    with progress() as update:
        found = Check(bucket, cluster, service).run(wanted_of(options["topics"]), update)
    _print_report(context, found, as_json=options["as_json"])


def _print_report(context: click.Context, report: "Report", *, as_json: bool) -> None:
    """Print a report; exit with code 1 unless each wanted topic is complete."""
    if as_json:
        print_json(report.as_json())
    else:
        _show(report)
    wrong = [one for one in report.topics if not one.is_well]
    if wrong:
        say(f"{len(wrong):,} of {len(report.topics):,} topics have problems; each has a reason in the report")
        context.exit(1)


def _show(report: "Report") -> None:
    from ledgerfs_cluster.recovery.report import missing_text, part_text

    drawn = table("TOPIC", "IN THE NEW CLUSTER", "STATE", "LEDGERS", "ENTRIES", "BYTES", "MISSING", "SUBSCRIPTIONS", "COMPARED",
                  right=("LEDGERS", "ENTRIES", "BYTES", "SUBSCRIPTIONS"))  # fmt: skip
    for one in report.topics:
        drawn.add_row(
            printable(one.topic), "=" if one.target == one.source else printable(one.target_topic), one.outcome.value,
            f"{len(one.ledgers):,}", f"{one.entries:,}", human_size(one.size), missing_text(one), f"{one.subscriptions:,}",
            "-" if one.compared is None else str(one.compared),
        )  # fmt: skip
    show(drawn)
    for one in report.topics:
        # Without open ledgers that were empty in the dump: any topic's last ledger may be.
        parts = [part for part in one.missing if part.entries != 0]
        said = [] if one.reason is None else [one.reason]
        said += [f"missing: {part_text(part)}" for part in parts]
        for sentence in (*said, *one.remarks):
            say(f"{one.topic}: {sentence}")
    for remark in report.remarks:
        say(remark)
    if report.by_hand:
        say("set these policies by hand, after you have checked the topics:")
        for setting in report.by_hand:
            say(f"  {setting}")
