"""The commands between topics and files of rows, ``ledgerfs export`` and ``ledgerfs import``.

They run in this process, one after the other: most of what they take is the start of a process, and they are many.
"""

from collections.abc import Sequence
from pathlib import Path

import click

from interop.s3_server import BUCKET, S3Server
from ledgerfs.cli.export import export
from ledgerfs.cli.import_rows import import_rows as import_command


def export_rows(s3: S3Server, topic: str, folder: Path, kind: str, columns: Sequence[str] = ()) -> None:
    """Write a topic's rows to files in ``folder``; all columns that there are by default, unless some are named."""
    chosen = ("--columns", ",".join(columns)) if columns else ()
    _run(export, s3, f"s3://{BUCKET}", topic, str(folder), "--format", kind, *chosen)


def import_rows(folder: Path, s3: S3Server, topic: str, options: Sequence[str]) -> None:
    """Write the rows of the files in ``folder`` as messages of a topic, in one new ledger."""
    _run(import_command, s3, str(folder), f"s3://{BUCKET}", topic, *options)


def _run(command: click.Command, s3: S3Server, *arguments: str) -> None:
    options = [part for name, value in s3.options.items() for part in ("-o", f"{name}={value}")]
    code = command.main([*arguments, *options], standalone_mode=False)
    assert not code, f"ledgerfs {command.name} {' '.join(arguments)}: exit code {code}"
