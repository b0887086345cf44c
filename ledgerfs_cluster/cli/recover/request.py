"""Options that the recovery commands share, and the values made from them."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.options import bucket_argument, json_option, parsed_options, storage_options_of
from ledgerfs.cli.output import say
from ledgerfs.cli.traffic_options import Command
from ledgerfs.errors import InvalidOptionError
from ledgerfs_cluster.cli.broker_options import ACCESS, admin_requests, broker_options, token_of
from ledgerfs_cluster.cli.cluster.source import cluster_at

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.schemas.saved_schemas import SchemaStore
    from ledgerfs_cluster.offload.offload_driver import OffloadDriver
    from ledgerfs_cluster.recovery.checking.pulsar_service import PulsarService
    from ledgerfs_cluster.recovery.new_cluster import NewCluster
    from ledgerfs_cluster.recovery.planning import Wanted
    from ledgerfs_cluster.recovery.recovery import Lost
    from ledgerfs_cluster.snapshot.kept_dumps import KeptDump
    from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster


topics_option = click.option(
    "--topics", multiple=True, metavar="PATTERN",
    help="Only topics whose tenant/namespace/topic matches this regular expression as a whole; may be repeated.",
)  # fmt: skip
service_option = click.option(
    "--service", metavar="URL",
    help="Address for clients, pulsar://host:6650 or pulsar+ssl://host:6651.  [default: from the new cluster's metadata]",
)  # fmt: skip


def lost_options(command: Command) -> Command:
    """Add BUCKET, the options of the lost cluster, and those that select topics; `lost_of` makes a `Lost` from them."""
    for add in (
        json_option,
        click.option(
            "--as", "template", metavar="NAME", default="",
            help="New names of topics; {tenant}, {namespace} and {topic} stand for the former ones, as in 'public/restored/{topic}'.",
        ),
        topics_option,
        click.option("--no-dump", is_flag=True, help="Do not use the newest dump in BUCKET."),
        click.option(
            "--dump", metavar="FILE|URL",
            help="Dump of the lost cluster (`ledgerfs cluster dump`).  [default: the newest one in BUCKET]",
        ),
    ):  # fmt: skip
        command = add(command)
    return bucket_argument(command)


def into_options(*, required: bool) -> Callable[[Command], Command]:
    """Return a decorator that adds the new cluster and its brokers, with the names that `into_cluster` and `into_of` read."""

    def add(command: Command) -> Command:
        for one in (
            broker_options,
            click.option(
                "--admin", required=required, metavar="URL", help="A broker's web service in the new cluster, http://host:8080."
            ),
            click.option(
                "-O", "--into-option", "into_options", multiple=True, metavar="KEY=VALUE",
                callback=lambda _context, _param, texts: parsed_options(texts),
                help="Option of the new cluster's ZooKeeper, such as username=me; may be repeated.",
            ),
            click.option("--into", required=required, metavar="CLUSTER", help="The new cluster, pulsar+zk://host:port,host:port[/chroot]."),
        ):  # fmt: skip
            command = one(command)
        return command

    return add


def restore_options(command: Command) -> Command:
    """Add options for the brokers' access to the bucket, and for the mode of restoring."""
    for one in (
        click.option("--no-schemas", is_flag=True, help="Set no schemas."),
        click.option("--schemas", metavar="URL", help="Another place of saved schemas, beside the dump and BUCKET."),
        click.option("--new-ids", is_flag=True, help="Copy ledgers whose ids the new cluster uses, with new ids; needs --as."),
        click.option("--region", metavar="NAME", default="", help="Region of the bucket for brokers."),
        click.option("--endpoint", metavar="URL", default="", help="Endpoint of the bucket for brokers.  [default: as -o endpoint_url]"),
        click.option("--bucket-name", metavar="NAME", help="Name of the bucket for brokers.  [default: its name in BUCKET]"),
        click.option("--driver", metavar="NAME", help="Driver with which brokers read the bucket, such as aws-s3.  [default: by BUCKET]"),
    ):  # fmt: skip
        command = one(command)
    return command


def lost_of(
    context: click.Context, bucket: "Bucket", options: dict[str, Any], cluster: "LivingCluster | None"
) -> "Lost":
    """Return the lost cluster, which must differ from the new one; raises `InvalidOptionError`, and the errors of its parts."""
    from ledgerfs_cluster.recovery.dumped_cluster import read_dumped
    from ledgerfs_cluster.recovery.recovery import Lost
    from ledgerfs_cluster.snapshot.kept_dumps import read_dump_at, read_kept_dump

    if options["dump"] is not None and options["no_dump"]:
        raise click.UsageError("--dump and --no-dump exclude each other: pass only one of them")
    wanted = wanted_of(options["topics"], options["template"])
    if options["dump"] is not None:
        place = storage_options_of(context)
        return Lost(bucket, wanted, read_dumped(lambda: read_dump_at(options["dump"], place)), options["dump"])
    kept = None if options["no_dump"] else _newest_kept(bucket, cluster)
    if kept is None:
        return Lost(bucket, wanted)
    name = f"{bucket.store.url}/{kept.key}"
    say(f"using the dump {name}")
    return Lost(bucket, wanted, read_dumped(lambda: read_kept_dump(bucket.raw_store, kept)), name)


def into_cluster(context: click.Context, options: dict[str, Any]) -> "LivingCluster":
    """Return the new cluster, which the context closes on exit; raises as `cluster_at`."""
    cluster = cluster_at(options["into"], options["into_options"], flag="-O", argument="--into")
    context.call_on_close(cluster.nodes.close)
    return cluster


def into_of(
    context: click.Context,
    lost: "Lost",
    cluster: "LivingCluster",
    options: dict[str, Any],
    **more: Any,  # noqa: ANN401  (fields of `NewCluster`)
) -> "NewCluster":
    """Return the new cluster as the target of a recovery; ``more`` are fields of `NewCluster` that a plan has no options for.

    Raises `InvalidOptionError` if its brokers would look for objects in another bucket.
    """
    from ledgerfs.bucket.known_schemas import KnownSchemas
    from ledgerfs.schemas.saved_schemas import saved_schemas_at
    from ledgerfs_cluster.recovery.new_cluster import NewCluster

    stores: list[SchemaStore] = [KnownSchemas(lost.bucket)]
    if options["schemas"] is not None:
        stores.append(saved_schemas_at(options["schemas"], storage_options_of(context)))
    return NewCluster(
        cluster,
        admin_requests(options["admin"], **{name: options[name] for name in ACCESS}),
        _driver_of(context, lost.bucket, options),
        gives_new_ids=options["new_ids"],
        stores=tuple(stores),
        sets_schemas=not options["no_schemas"],
        **more,
    )


def _newest_kept(bucket: "Bucket", cluster: "LivingCluster | None") -> "KeptDump | None":
    """Return the newest dump stored in a bucket that is not of the new cluster; None without any.

    Raises `InvalidOptionError` for dumps of several clusters, and if all dumps are of the new cluster.
    """
    from ledgerfs_cluster.snapshot.kept_dumps import dumps_folder, kept_dumps

    found = kept_dumps(bucket.raw_store)
    own = dumps_folder(cluster) if cluster is not None and found else None
    kept = [one for one in found if one.cluster != own]
    if found and not kept:
        reason = (
            "all dumps in the bucket are of the new cluster; pass a dump of the lost cluster (--dump), or --no-dump"
        )
        raise InvalidOptionError(reason, key=found[-1].key)
    clusters = sorted({one.cluster for one in kept})
    if len(clusters) > 1:
        last = "; ".join(next(one.key for one in reversed(kept) if one.cluster == cluster) for cluster in clusters)
        reason = f"the bucket has dumps of several clusters; choose one with --dump {bucket.store.url}/…: {last}"
        raise InvalidOptionError(reason, key=bucket.store.url)
    return kept[-1] if kept else None


def wanted_of(topics: Sequence[str], template: str = "") -> "Wanted":
    """Return the wanted topics and their new names; raises `click.BadParameter` for an invalid pattern."""
    from ledgerfs_cluster.recovery.planning import Wanted

    patterns = []
    for text in topics:
        try:
            patterns.append(re.compile(text.removeprefix("persistent://")))
        except re.error as error:
            raise click.BadParameter(f"{text!r} is not a regular expression: {error}", param_hint="--topics") from error
    return Wanted(tuple(patterns), template)


def _driver_of(context: click.Context, bucket: "Bucket", options: dict[str, Any]) -> "OffloadDriver":
    """Return the driver with which the new cluster's brokers find the bucket; raises `InvalidOptionError` if they would look elsewhere."""
    from ledgerfs_cluster.offload.offload_driver import (
        bucket_in,
        driver_for,
        driver_of_bucket,
        folder_in_bucket,
        require_place,
    )

    url = bucket.store.url
    if folder_in_bucket(url):
        raise InvalidOptionError(
            "brokers can only read offloads at the top of a bucket, not in a folder: pass the bucket itself", key=url
        )
    name = options["bucket_name"] or bucket_in(url)
    driver = options["driver"] or driver_for(url)
    endpoint = options["endpoint"] or str(storage_options_of(context).get("endpoint_url") or "")
    require_place(url, driver, name, endpoint)
    return driver_of_bucket(driver, name, options["region"], endpoint)


def pulsar_service(context: click.Context, cluster: "LivingCluster", options: dict[str, Any]) -> "PulsarService":
    """Return the brokers' service for clients, with the token and certificates of the admin API.

    The context closes its connections on exit. Raises `InvalidOptionError` for an invalid address, if the cluster's metadata contain none,
    and without ``pulsar-client``.
    """
    from ledgerfs_cluster.recovery.checking.pulsar_service import PulsarService, service_address

    url = options["service"] or service_address(cluster.nodes, has_tls=options["admin"].startswith("https"))
    token = token_of(options["token"], options["token_file"])
    service = PulsarService(url, token, options["tls_ca"], options["tls_cert"], options["tls_key"])
    context.call_on_close(service.close)
    return service
