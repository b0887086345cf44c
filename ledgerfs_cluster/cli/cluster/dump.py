"""``ledgerfs cluster dump``: ZooKeeper's metadata in a file, or stored beside a bucket."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.cli.commands import command
from ledgerfs.cli.options import json_option, target_option, target_options_of
from ledgerfs.cli.output import print_json, progress, say
from ledgerfs.cli.parameter_types import LocalPath
from ledgerfs.display import human_size
from ledgerfs_cluster.cli.cluster.source import access_options, bookies_of, opened_cluster, say_some
from ledgerfs_cluster.cli.end_signals import at_end_signals


@command()
@click.argument("url", metavar="URL")
@click.argument("file", metavar="[FILE]", required=False, type=LocalPath("use --to for the URL of a bucket"))
@click.option(
    "--to",
    "bucket",
    metavar="BUCKET",
    help="Store the dump beside this bucket, in _ledgerfs/dumps/, instead of in a FILE.",
)
@click.option(
    "--keep", type=click.IntRange(min=1), default=720, show_default=True, metavar="NUMBER",
    help="With --to: how many dumps of this cluster to keep.",
)  # fmt: skip
@target_option("the bucket of --to")
@access_options
@json_option
@click.pass_context
def dump(
    context: click.Context,
    /,
    *,
    url: str,
    file: Path | None,
    bucket: str | None,
    keep: int,
    zk_rate: float,
    no_bookies: bool,
    as_json: bool,
) -> None:
    """Write a cluster's metadata to a file or beside a bucket.

    URL is pulsar+zk://host:port,host:port[/chroot]. FILE is JSON compressed with zstd (dump.json.zst), with everything that
    ZooKeeper stores of ledgers, topics, subscriptions, policies, schemas, bundles, brokers and bookies. Bookies report where open
    ledgers end, the positions of active subscriptions, and the definitions of schemas. Other commands accept the file in place of a
    URL. Only its owner can read it: it contains passwords of ledgers, and perhaps credentials of buckets. An interrupted dump
    leaves no file.

    With --to, the dump is added to a bucket's _ledgerfs/dumps/, and old ones are removed. Run it by a timer (cron, systemd, a
    CronJob), such as every hour.

    \b
    Examples:
      ledgerfs cluster dump pulsar+zk://zk1:2181,zk2:2181 dump.json.zst
      ledgerfs cluster dump pulsar+zk://zk1:2181/pulsar dump.json.zst --zk-rate 500
      ledgerfs cluster dump pulsar+zk://zk1:2181 --to s3://tier
      ledgerfs cluster dump pulsar+zk://zk1:2181 --to s3://tier --keep 48
    """
    if (file is None) == (bucket is None):
        raise click.UsageError("pass FILE or --to BUCKET as the place of the dump, but not both")
    # These import numpy, fsspec and kazoo, which --help does not need.
    from ledgerfs_cluster.snapshot.kept_dumps import add_dump, dumps_folder, dumps_store, remove_old_dumps
    from ledgerfs_cluster.snapshot.surveying import dump_cluster

    store = None if bucket is None else dumps_store(bucket, target_options_of(context))
    cluster = opened_cluster(context, url, zk_rate)
    context.call_on_close(cluster.nodes.close)
    bookies = bookies_of(cluster, no_bookies=no_bookies)
    reported: dict[str, Any] = {}
    pruned = ""
    if file is not None:
        with progress() as update:
            done = dump_cluster(cluster, bookies, file, update)
        name, size = str(file), done.size
        reported = {"file": name}
    elif store is not None:
        # Signals interrupt only inside: one during creation or removal of the folder could leave its secrets on the disk.
        with TemporaryDirectory(prefix="ledgerfs-") as spool, at_end_signals(_interrupt), progress() as update:
            whole = Path(spool, "dump.json.zst")
            done = dump_cluster(cluster, bookies, whole, update)
            kept = add_dump(store, dumps_folder(cluster), whole, done.began_ms)
            removed = remove_old_dumps(store, kept, keep)
        name, size = f"{store.url}/{kept.key}", kept.stat.size
        reported = {"bucket": store.url, "key": kept.key, "cluster": kept.cluster, "taken": iso_time(kept.taken_ms)}
        reported |= {"removed": [one.key for one in removed]}
        pruned = f"; {len(removed):,} older dumps removed" if removed else ""
    if as_json:
        print_json({**reported, "bytes": size, "nodes": done.nodes, "not_known": len(done.troubles)})
    say_some("unknown: {}", done.troubles)
    say(f"{name}: {done.nodes:,} nodes, {human_size(size)}{pruned}")


def _interrupt() -> None:
    raise KeyboardInterrupt
