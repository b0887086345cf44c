"""``ledgerfs umount``: unmount a folder."""

from pathlib import Path

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.parameter_types import LocalPath
from ledgerfs.fuse_mount.mountpoint import absolute
from ledgerfs.fuse_mount.unmounting import unmount


@command()
@click.argument("folder", metavar="FOLDER", type=LocalPath())
@click.option("-z", "--lazy", is_flag=True, help="Unmount also while files are open; they stay readable.")
def umount(folder: Path, *, lazy: bool) -> None:
    """Unmount a folder, also after its process was killed.

    \b
    Examples:
      ledgerfs umount /mnt/tier
    """
    unmount(absolute(folder), lazy=lazy)
