"""``ledgerfs cluster dump``: what ZooKeeper has, in a file, or kept beside a bucket."""

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.cli.commands import command
from ledgerfs.cli.options import json_option, target_option, target_options_of
from ledgerfs.cli.output import human_size, print_json, progress, say
from ledgerfs.cli.parameter_types import Duration, LocalPath
from ledgerfs_cluster.cli.cluster.source import access_options, bookies_of, opened_cluster
from ledgerfs_cluster.cli.end_signals import at_end_signals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ledgerfs.storage.object_store import RawStore
    from ledgerfs_cluster.snapshot.answers import BookieReads
    from ledgerfs_cluster.snapshot.dump_keeping import Added, Keeping
    from ledgerfs_cluster.snapshot.surveying import Dumped, Progress
    from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster


_MOST_LINES = 10
"""Lost schemas that are told one by one; the file has them all."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which cluster is dumped, and how it is asked."""

    context: click.Context
    url: str
    zk_rate: float
    no_bookies: bool
    as_json: bool


@command()
@click.argument("url", metavar="URL")
@click.argument("file", metavar="[FILE]", required=False, type=LocalPath("--to takes the URL of a bucket"))
@click.option(
    "--to", "bucket", metavar="BUCKET", help="Keep the dump beside this bucket, in _ledgerfs/dumps/, instead of a FILE."
)
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=48,
    show_default=True,
    metavar="NUMBER",
    help="With --to: how many dumps of this cluster stay at least.",
)
@click.option(
    "--keep-for",
    type=Duration(),
    default="30d",
    show_default=True,
    metavar="TIME",
    help="With --to: all that are younger stay, too.",
)
@target_option
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
    keep_for: float,
    zk_rate: float,
    no_bookies: bool,
    as_json: bool,
) -> None:
    """Write what ZooKeeper has of ledgers, topics, subscriptions and policies to FILE, or keep it beside a bucket.

    URL is pulsar+zk://host:port,host:port[/chroot]. FILE is JSON, compressed with zstd (dump.json.zst): of each node its data in base64,
    its times and version; with places of schemas, bundles, brokers and bookies. Bookies are asked where open ledgers end and subscriptions
    in use are, and for the definition of each version of each schema. The other commands about clusters take it in place of a URL. It has
    passwords of ledgers and perhaps credentials of buckets, so only its owner can read it. Whatever ends this before leaves no file.

    With --to dumps are added to a bucket's _ledgerfs/dumps/, and old ones are removed. `ledgerfs cluster dumps` lists them, and makes files
    of them. Have a timer (cron, systemd, a CronJob) run it, such as every hour.

    \b
    Examples:
      ledgerfs cluster dump pulsar+zk://zk1:2181,zk2:2181 dump.json.zst
      ledgerfs cluster dump pulsar+zk://zk1:2181/pulsar dump.json.zst --zk-rate 500
      ledgerfs cluster dump pulsar+zk://zk1:2181 --to s3://tier
      ledgerfs cluster dump pulsar+zk://zk1:2181 --to s3://tier --keep 48 --keep-for 30d
    """
    asked = _Asked(context, url, zk_rate, no_bookies, as_json)
    if (file is None) == (bucket is None):
        raise click.UsageError("either FILE or --to BUCKET is where the dump goes")
    if file is not None:
        _to_file(asked, file)
    elif bucket is not None:
        # These import numpy and fsspec, which --help does not need.
        from ledgerfs_cluster.snapshot.dump_keeping import Keeping
        from ledgerfs_cluster.snapshot.kept_dumps import dumps_store

        store, keeping = dumps_store(bucket, target_options_of(context)), Keeping(keep, round(keep_for * 1000))
        # Outside of what a signal interrupts: it may come while a folder is made, or removed, and what is in there is secret.
        with TemporaryDirectory(prefix="ledgerfs-") as spool, at_end_signals(_interrupt):
            added = _to_bucket(asked, store, keeping, spool)
        _tell(asked, store, added)


def _interrupt() -> None:
    raise KeyboardInterrupt


def _to_file(asked: _Asked, file: Path) -> None:
    # These import numpy and kazoo, which --help does not need.
    from ledgerfs_cluster.snapshot.surveying import dump_cluster

    with _opened(asked) as (cluster, bookies, update):
        done = dump_cluster(cluster, bookies, file, update)
    if asked.as_json:
        print_json({"file": str(file), "bytes": done.size, "nodes": done.nodes, "not_known": done.troubles})
    _say_not_known(str(file), done)
    say(f"{file}: {done.nodes:,} nodes, {human_size(done.size)}")


@contextmanager
def _opened(asked: _Asked) -> "Iterator[tuple[LivingCluster, BookieReads | None, Progress]]":
    """Lend the cluster, its bookies and a display of progress."""
    cluster = opened_cluster(asked.context, asked.url, asked.zk_rate)
    try:
        with progress() as update:
            yield cluster, bookies_of(cluster, no_bookies=asked.no_bookies), update
    finally:
        cluster.nodes.close()


def _to_bucket(asked: _Asked, store: "RawStore", keeping: "Keeping", spool: str) -> "Added":
    from ledgerfs_cluster.snapshot.dump_keeping import add_dump

    with _opened(asked) as (cluster, bookies, update):
        return add_dump(cluster, bookies, store, keeping, update, spool=spool)


def _tell(asked: _Asked, store: "RawStore", added: "Added") -> None:
    kept = added.kept
    if asked.as_json:
        print_json(_as_json(store, added))
    _say_not_known(kept.key, added.dumped)
    pruned = f"; {len(added.pruned):,} older ones removed" if added.pruned else ""
    say(f"{store.url}/{kept.key}: {added.dumped.nodes:,} nodes, {human_size(kept.stat.size)}{pruned}")


def _as_json(store: "RawStore", added: "Added") -> dict[str, Any]:
    kept = added.kept
    return {
        "bucket": store.url,
        "key": kept.key,
        "cluster": kept.cluster,
        "taken": iso_time(kept.taken_ms),
        "bytes": kept.stat.size,
        "nodes": added.dumped.nodes,
        "not_known": added.dumped.troubles,
        "removed": [one.key for one in added.pruned],
    }


def _say_not_known(name: str, done: "Dumped") -> None:
    for trouble in done.lost_schemas[:_MOST_LINES]:
        say(f"not known: {trouble}")
    if len(done.lost_schemas) > _MOST_LINES:
        say(f"not known: {len(done.lost_schemas) - _MOST_LINES:,} more versions of schemas")
    if others := done.troubles - len(done.lost_schemas):
        say(f"{name}: {others:,} questions to bookies have no answer; retention and cursors tell which")
