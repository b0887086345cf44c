"""``ledgerfs ls``: the tree of a bucket."""

from typing import TYPE_CHECKING

import click

from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.cli.commands import command
from ledgerfs.cli.notices import notice
from ledgerfs.cli.options import bucket_argument
from ledgerfs.cli.output import progress, show, table

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.vfs.tree import Node


@command()
@click.option(
    "-l", "long", is_flag=True, help="Show size in bytes (- if unknown before reading) and time of upload (UTC)."
)
@bucket_argument
@click.argument("path", default="")
def ls(bucket: "Bucket", path: str, long: bool) -> None:
    """List a folder of the bucket's tree.

    \b
    Examples:
      ledgerfs ls s3://tier
      ledgerfs ls s3://tier entries/public/default
      ledgerfs ls -l s3://tier entries/public/default/orders
    """
    # This imports numpy, which --help does not need.
    from ledgerfs.vfs.tree import tree_of

    with progress() as update:
        bucket.load_catalog(update)
    if bucket.catalog.is_empty:
        notice(bucket, bucket.catalog)
    node = tree_of(bucket).node(path)
    nodes = tree_of(bucket).children(path) if node.is_directory else iter([node])
    if long:
        rows = table("size", "uploaded", "name", right=("size",))
        rows.show_header = False
        for one in nodes:
            rows.add_row("-" if one.is_directory or one.size is None else str(one.size), _time(one), _name(one))
        show(rows)
    else:
        for one in nodes:
            click.echo(_name(one))


def _time(node: "Node") -> str:
    milliseconds = node.missing.modified_ms if node.missing else node.ref.uploaded_ms if node.ref else None
    text = iso_time(milliseconds or None)
    return "-" if text is None else text[:19].replace("T", " ")


def _name(node: "Node") -> str:
    return node.path.rpartition("/")[2] + ("/" if node.is_directory else "")
