"""``ledgerfs cluster dumps``: the dumps that are stored beside a bucket."""

import click

from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.cli.commands import command
from ledgerfs.cli.options import json_option, storage_option, storage_options_of
from ledgerfs.cli.output import say
from ledgerfs.display import human_size
from ledgerfs_cluster.cli.rows import cell, print_rows


@command()
@click.argument("bucket", metavar="BUCKET")
@click.option(
    "--cluster", metavar="ID", help="Only dumps of this cluster, by the name of its folder in _ledgerfs/dumps/."
)
@storage_option
@json_option
@click.pass_context
def dumps(context: click.Context, /, *, bucket: str, cluster: str | None, as_json: bool) -> None:
    """List the dumps that are stored beside a bucket.

    `ledgerfs cluster dump --to` stores them. Other commands accept the URL of a dump as CLUSTER:
    s3://tier/_ledgerfs/dumps/<cluster>/<name>.

    \b
    Examples:
      ledgerfs cluster dumps s3://tier
      ledgerfs cluster cursors s3://tier/_ledgerfs/dumps/<cluster>/<name>
    """
    # These import numpy and fsspec, which --help does not need.
    from ledgerfs_cluster.snapshot.kept_dumps import dumps_store, kept_dumps

    store = dumps_store(bucket, storage_options_of(context))
    found = kept_dumps(store, cluster)
    rows = [
        {"key": one.key, "cluster": one.cluster, "taken": iso_time(one.taken_ms), "bytes": one.stat.size}
        for one in found
    ]
    columns = {
        "cluster": cell("cluster"),
        "begun": cell("taken"),
        "bytes": cell("bytes", human_size),
        "name": cell("key", lambda key: key.rpartition("/")[2]),
    }
    print_rows(rows, columns, ("bytes",), as_json=as_json)
    say(f"{store.url}: {len(found):,} dumps, {human_size(sum(one.stat.size for one in found))}")
