"""``ledgerfs cat``: the bytes of a file."""

import sys
from typing import TYPE_CHECKING

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.options import bucket_argument
from ledgerfs.cli.output import progress
from ledgerfs.errors import InvalidOptionError

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket

_CHUNK = 4 << 20


@command()
@bucket_argument
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
def cat(bucket: "Bucket", paths: tuple[str, ...]) -> None:
    """Write files of the bucket's tree to standard output.

    PATH is a file, a folder (all files below it), or a pattern such as 'jsonl/public/default/orders/*'; ledgers of a topic come by id.

    Exit code 1: a file is damaged, and the output is incomplete.

    \b
    Examples:
      ledgerfs cat s3://tier entries/public/default/orders/58.entries > 58.entries
      ledgerfs cat s3://tier jsonl/public/default/orders > orders.jsonl
      ledgerfs cat s3://tier info/public/default/orders/58.json | jq .blocks
    """
    # This imports numpy, which --help does not need.
    from ledgerfs.vfs.tree import tree_of

    descriptor = sys.stdout.fileno()
    is_watched = not sys.stdout.isatty()
    with progress() as update:
        bucket.load_catalog(update)
    with progress(in_bytes=True) as update:
        tree = tree_of(bucket)
        # Before the first byte, since a misspelt path is to write nothing.
        files = [node.path for path in paths for node in tree.matching(path)]
        if len(files) > 1 and any(path.startswith(("parquet/", "arrow/")) for path in files):
            raise InvalidOptionError(
                "such files cannot be joined; `ledgerfs export` writes them to a folder", key=files[0]
            )
        for path in files:
            opened = tree.open(path)
            for start in range(0, opened.size, _CHUNK):
                end = min(start + _CHUNK, opened.size)
                opened.send(start, end, descriptor)
                if is_watched:
                    update(path, end, opened.size)
