"""``ledgerfs recover check``: restored topics read back through brokers."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.options import bucket_argument, json_option
from ledgerfs.cli.output import progress
from ledgerfs_cluster.cli.recover.outcome import print_report
from ledgerfs_cluster.cli.recover.request import (
    into_cluster,
    into_options,
    pulsar_service,
    requests_of,
    service_option,
    topics_option,
    wanted_of,
)

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket


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
    """Read all of each restored topic back through the new cluster's brokers, as a client does, and compare it with BUCKET.

    Each message has to come once, in order, with the place, payload, key, properties and times that the bucket has; of aborted transactions
    none may. What producers appended since is counted, and not compared. Which topics were restored, and how, `recover run` has noted in
    the cluster; --topics matches their former names. Nothing is written, and no subscription is left. It takes pip install
    'ledgerfs[pulsar]'. Exit code 0 if all is the same, 1 if not, or if nothing was restored.

    \b
    Examples:
      ledgerfs recover check s3://tier --into pulsar+zk://new:2181 --admin http://new:8080
      ledgerfs recover check s3://tier --into pulsar+zk://new:2181 --admin http://new:8080 --topics 'public/orders/.*'
    """
    from ledgerfs_cluster.recovery.checking.check import Check

    cluster = into_cluster(context, options)
    service = pulsar_service(context, cluster, options)
    with progress() as update:
        found = Check(bucket, cluster, service, requests_of(options)).run(wanted_of(options["topics"]), update)
    print_report(context, found, as_json=options["as_json"])
