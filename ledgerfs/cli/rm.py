"""``ledgerfs rm``: delete ledgers."""

from typing import TYPE_CHECKING

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.options import bucket_argument
from ledgerfs.cli.output import progress, say
from ledgerfs.display import human_size, printable
from ledgerfs.errors import IsADirectoryPathError

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.vfs.tree import Node, Tree


@command()
@bucket_argument
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("-r", "--recursive", is_flag=True, help="Delete all ledgers of a directory.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def rm(context: click.Context, /, bucket: "Bucket", paths: tuple[str, ...], *, recursive: bool, yes: bool) -> None:
    """Delete ledgers from a bucket.

    Each PATH is a file below entries/ of the tree. Deletes its index object first, then its data object. A broker that lists the
    ledger can no longer read it.

    Exit code 1: a path still has a ledger afterwards: another copy, or one that another writer added meanwhile. It is listed.

    \b
    Examples:
      ledgerfs rm s3://tier entries/public/default/orders/58.entries
      ledgerfs rm s3://tier -r entries/public/default/orders --yes
    """
    # These import numpy and numba, which --help does not need.
    from ledgerfs.vfs.removal import remove_ledgers
    from ledgerfs.vfs.target import removable
    from ledgerfs.vfs.tree import tree_of

    with progress() as update:
        bucket.refresh(update)
    tree = tree_of(bucket)
    nodes = {node.path: node for path in paths for node in _files(tree, path, recursive=recursive)}
    keys = [removable(tree, path) for path in nodes]
    size = sum(node.size or 0 for node in nodes.values())
    if not yes:
        for path in nodes:
            say(printable(path))
        if not _is_confirmed(f"Delete {len(keys):,} ledgers, {human_size(size)} of records?"):
            say("nothing was deleted")
            context.exit(1)
    left = remove_ledgers(bucket, list(nodes), [path for path in paths if tree.node(path).is_directory])
    say(f"deleted: {len(keys):,} ledgers, {human_size(size)} of records")
    for one in left:
        say(str(one))
    if any(one.is_new for one in left):
        context.exit(1)


def _is_confirmed(question: str) -> bool:
    try:
        return click.confirm(question, err=True)
    except click.Abort as error:
        if isinstance(error.__context__, EOFError):
            say("")
            raise click.UsageError(
                "cannot ask for confirmation (standard input is closed), so nothing was deleted; pass --yes to delete without asking"
            ) from error
        raise


def _files(tree: "Tree", path: str, *, recursive: bool) -> "list[Node]":
    node = tree.node(path)
    if not node.is_directory:
        return [node]
    if not recursive:
        raise IsADirectoryPathError("is a directory; -r deletes all ledgers in it", key=path)
    return [one for one in tree.walk(path) if not one.is_directory]
