"""``ledgerfs cluster dump``: what ZooKeeper has, in a file."""

from pathlib import Path

import click

from ledgerfs.cli.cluster.source import access_options, bookies_of, opened_cluster, ttl_option
from ledgerfs.cli.commands import command
from ledgerfs.cli.options import json_option
from ledgerfs.cli.output import human_size, minute, print_json, progress, say
from ledgerfs.cli.parameter_types import LocalPath
from ledgerfs.ledgers.time_arguments import iso_time

_MOST_LINES = 10
"""Lost schemas that are told one by one; the file has them all."""


@command()
@click.argument("url", metavar="URL")
@click.argument("file", metavar="FILE", type=LocalPath())
@access_options
@ttl_option
@json_option
@click.pass_context
def dump(
    context: click.Context,
    /,
    *,
    url: str,
    file: Path,
    zk_rate: float,
    no_bookies: bool,
    broker_ttl_seconds: int,
    as_json: bool,
) -> None:
    """Write what ZooKeeper has of ledgers, topics, subscriptions and policies to FILE.

    URL is pulsar+zk://host:port,host:port[/chroot]. FILE is JSON, compressed with zstd (dump.json.zst): of each node its data in base64,
    its times and version; with places of schemas, bundles, brokers and bookies. Bookies are asked where open ledgers end and subscriptions
    in use are, what the time to live of topics expires, by --broker-ttl-seconds where no policy tells it, and for the definition of each
    version of each schema. The other commands about clusters take it in place of a URL. It has passwords of ledgers and perhaps
    credentials of buckets, so only its owner can read it. While it is written it is FILE.partial; the same command goes on from there after
    Ctrl-C or an error.

    \b
    Examples:
      ledgerfs cluster dump pulsar+zk://zk1:2181,zk2:2181 dump.json.zst
      ledgerfs cluster dump pulsar+zk://zk1:2181/pulsar dump.json.zst --zk-rate 500
    """
    # These import numpy and kazoo, which --help does not need.
    from ledgerfs.clusters.dumping import dump_cluster, partial_path

    cluster = opened_cluster(context, url, zk_rate)
    try:
        with progress() as update:
            bookies = bookies_of(cluster, no_bookies=no_bookies)
            done = dump_cluster(cluster, bookies, file, update, broker_ttl_seconds * 1000)
    except BaseException:
        if partial_path(file).exists():
            say(f"{partial_path(file)}: what was read so far; the same command goes on from there")
        raise
    finally:
        cluster.nodes.close()
    if as_json:
        print_json(
            {
                "file": str(file),
                "bytes": done.size,
                "nodes": done.nodes,
                "nodes_before": done.nodes_before,
                "began_before": iso_time(done.began_before_ms),
                "not_known": done.troubles,
            }
        )
    if done.began_before_ms is not None:
        say(f"{file}: {done.nodes_before:,} of its nodes are of the run that began {minute(done.began_before_ms)}")
    for trouble in done.lost_schemas[:_MOST_LINES]:
        say(f"not known: {trouble}")
    if len(done.lost_schemas) > _MOST_LINES:
        say(f"not known: {len(done.lost_schemas) - _MOST_LINES:,} more versions of schemas")
    if others := done.troubles - len(done.lost_schemas):
        say(f"{file}: {others:,} questions to bookies have no answer; retention and cursors tell which")
    say(f"{file}: {done.nodes:,} nodes, {human_size(done.size)}")
