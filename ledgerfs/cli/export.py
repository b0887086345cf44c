"""``ledgerfs export``: a topic as Parquet, JSON lines, Arrow or CSV."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.notices import announce_compiling, say_left_out
from ledgerfs.cli.options import bucket_argument
from ledgerfs.cli.output import progress, say
from ledgerfs.cli.parameter_types import LocalPath
from ledgerfs.cli.scan_options import scan_options
from ledgerfs.display import human_size

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket

_ELSEWHERE = "To a store: ledgerfs spark export --to URL."
_MOST_NAMED = 10
_STREAM = Path("-")
_BINARY = ("parquet", "arrow")
_KINDS = (*_BINARY, "jsonl", "csv")


class _FolderOrStream(LocalPath):
    """A local path, or ``-`` for standard output."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ANN401
        """Return the path."""
        return _STREAM if value == "-" else super().convert(value, param, ctx)


@command()
@bucket_argument
@click.argument("topic")
@click.argument("out", metavar="OUT", type=_FolderOrStream(_ELSEWHERE))
@click.option(
    "--format", "kind", type=click.Choice(_KINDS), default="parquet", show_default=True, help="Format of the files."
)
@scan_options
@click.option("--overwrite", is_flag=True, help="Delete the files of an export with other options from OUT first.")
@click.pass_context
def export(
    context: click.Context, *, bucket: "Bucket", topic: str, out: Path, kind: str, scan: dict[str, Any], overwrite: bool
) -> None:
    """Export a topic to Parquet, Arrow, CSV or JSON lines.

    Writes one file for each ledger to the folder OUT; each file is complete or absent. After an interruption, or when the topic has
    grown, run the command again: finished files stay. With - as OUT, all messages are one stream on standard output, complete if
    the exit code is 0.

    Exit code 1: damaged entries were skipped, values could not be decoded, or rows may be missing because a ledger was deleted.
    Each is listed. Values of messages without a schema version are null; this is reported, but not an error.

    \b
    Examples:
      ledgerfs export s3://tier persistent://public/default/orders orders/
      ledgerfs export s3://tier public/default/orders orders/ --format jsonl --columns publish_time,key,value
      ledgerfs export s3://tier public/default/orders november/ --start 2026-11-01 --end 2026-12-01
      ledgerfs export s3://tier public/default/orders orders/ --on-corrupt skip
      ledgerfs export s3://tier public/default/orders orders/ --values typed --flatten
      ledgerfs export s3://tier public/default/events events/ --values json --flatten --format csv
      ledgerfs export s3://tier public/default/orders - --format jsonl --start -1h | jq .key
    """
    if out == _STREAM:
        if overwrite:
            raise click.UsageError("--overwrite works only for folders, but - is standard output", context)
        if _write_stream(bucket, topic, kind, scan):
            context.exit(1)
        return
    # This imports pyarrow and numba, which --help does not need.
    from ledgerfs.export.export import export_listed
    from ledgerfs.export.folder_lock import locked

    with locked(out):
        # An export with an older listing would undo the files of a newer export.
        with progress() as update:
            bucket.refresh(update)
        announce_compiling()
        with progress(in_bytes=True) as update:
            report = export_listed(bucket.topic(topic), out, kind, overwrite=overwrite, progress=update, **scan)
    is_damaged = say_left_out(report)
    if report.skipped_before:
        say(f"{report.topic}: {report.skipped_before:,} damaged entries were left out by earlier runs")
    if report.undecodable_before:
        say(f"{report.topic}: {report.undecodable_before:,} values were not decoded by earlier runs")
    if report.unnamed_before:
        say(
            f"{report.topic}: {report.unnamed_before:,} values were not decoded by earlier runs: their messages "
            "have no schema version, or are encrypted"
        )
    for one in report.held[:_MOST_NAMED]:
        say(f"{report.topic}: {one}")
    if len(report.held) > _MOST_NAMED:
        say(f"{report.topic}: and {len(report.held) - _MOST_NAMED:,} more")
    kept = f"; {report.kept:,} kept from earlier runs" if report.kept else ""
    say(f"{out}: {report.written:,} files, {report.rows:,} messages, {human_size(report.size)}{kept}")
    if is_damaged or report.held or report.skipped_before or report.undecodable_before:
        context.exit(1)


def _write_stream(bucket: "Bucket", topic: str, kind: str, options: dict[str, Any]) -> bool:
    """Write the messages of a topic as one file to standard output; return whether there was damage."""
    # This imports pyarrow and numba, which --help does not need.
    from ledgerfs.scan.report import ScanReport
    from ledgerfs.tables.table_files import write_table

    if sys.stdout.isatty() and kind in _BINARY:
        raise click.UsageError(f"a terminal cannot show {kind}: redirect the output, or use --format jsonl or csv")
    with progress() as update:
        bucket.load_catalog(update)
    announce_compiling()
    report, scan = ScanReport(), bucket.topic(topic).scan(**options)
    with progress(in_bytes=True) as update:
        read, total = 0, sum(ledger.ref.length for part in scan.parts for ledger in part.ledgers)

        def add(size: int) -> None:
            nonlocal read
            read += size
            update(scan.topic, read, total)

        rows = write_table(replace(scan, on_read=add).batches(report), scan.schema, sys.stdout.buffer, kind)
    sys.stdout.buffer.flush()
    is_damaged = say_left_out(report)
    say(f"{rows:,} messages")
    return is_damaged
