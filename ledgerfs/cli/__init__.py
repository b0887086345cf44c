"""The command ``ledgerfs``: thin commands that call the layers above and print with rich."""

from ledgerfs.cli.main import main

__all__ = ["main"]
