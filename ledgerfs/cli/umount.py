"""``ledgerfs umount``: the end of a mount."""

import click

from ledgerfs.fuse_mount.mountpoint import absolute
from ledgerfs.fuse_mount.unmounting import unmount


@click.command()
@click.argument("folder", metavar="FOLDER")
@click.option("-z", "--lazy", is_flag=True, help="Also while files are open: who has them open can go on.")
def umount(folder: str, *, lazy: bool) -> None:
    """End the mount on FOLDER; one whose process was killed is cleared away.

    \b
    Examples:
      ledgerfs umount /mnt/tier
    """
    unmount(absolute(folder), lazy=lazy)
