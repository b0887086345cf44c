"""``ledgerfs cluster dumps``: the dumps that are kept beside a bucket, and files of them."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.cli.commands import command
from ledgerfs.cli.options import json_option, storage_option, storage_options_of
from ledgerfs.cli.output import human_size, print_json, say
from ledgerfs.cli.parameter_types import LocalPath
from ledgerfs_cluster.cli.rows import cell, print_rows

if TYPE_CHECKING:
    from ledgerfs.storage.object_store import RawStore
    from ledgerfs_cluster.snapshot.kept_dumps import KeptDump


@command()
@click.argument("bucket", metavar="BUCKET")
@click.option("--cluster", metavar="ID", help="Only of this cluster, by the name of its folder in _ledgerfs/dumps/.")
@click.option("--get", "file", type=LocalPath(), metavar="FILE", help="Write the newest one to FILE.")
@storage_option
@json_option
@click.pass_context
def dumps(context: click.Context, /, *, bucket: str, cluster: str | None, file: Path | None, as_json: bool) -> None:
    """List the dumps that `ledgerfs cluster dump --to` keeps beside BUCKET: when they were begun, and their sizes.

    With --get the newest one is written to a file, which other commands take in place of a cluster; all of it is compared before with what
    it was when it was made. They also take a kept dump itself: s3://tier/_ledgerfs/dumps/<cluster>/<name>.

    \b
    Examples:
      ledgerfs cluster dumps s3://tier
      ledgerfs cluster dumps s3://tier --get dump.json.zst
    """
    # These import numpy and fsspec, which --help does not need.
    from ledgerfs_cluster.snapshot.kept_dumps import dumps_store, kept_dumps

    store = dumps_store(bucket, storage_options_of(context))
    found = kept_dumps(store, cluster)
    if file is not None:
        _write(store, found, file, as_json=as_json)
        return
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


def _write(store: "RawStore", found: "list[KeptDump]", file: Path, *, as_json: bool) -> None:
    from ledgerfs.errors import InvalidOptionError, NotFoundError
    from ledgerfs_cluster.snapshot.kept_dumps import copy_kept_dump

    clusters = sorted({one.cluster for one in found})
    if not found:
        raise NotFoundError("no such dump is kept here", key=store.url)
    if len(clusters) > 1:
        raise InvalidOptionError(f"dumps of several clusters are kept here: {', '.join(clusters)}", key="--cluster")
    kept = found[-1]
    size = copy_kept_dump(store, kept, file)
    if as_json:
        print_json({"file": str(file), "bytes": size, "key": kept.key, "taken": iso_time(kept.taken_ms)})
    say(f"{file}: {human_size(size)}, the dump {kept.key}")
