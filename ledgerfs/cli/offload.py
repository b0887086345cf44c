"""``ledgerfs offload``: copy the ledgers of a bucket to another one."""

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.group import EXIT_STORAGE
from ledgerfs.cli.options import CODECS, disks_argument, target_argument
from ledgerfs.cli.output import print_json, progress, say
from ledgerfs.cli.parameter_types import Size
from ledgerfs.display import human_size, printable

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.catalog.findings import Finding
    from ledgerfs.writing.bucket_copy import CopiedLedger
    from ledgerfs.writing.copy_ledgers import CopyReport

_READ_BYTES = 64 << 20
"""Source bytes in memory, half of them read ahead; the rest of 512 MiB is for writing."""

_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A UUID, as in the keys of all layouts."""


@command()
@disks_argument
@target_argument
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated.")
@click.option("--block-size", type=Size(), help="Block size of the copies, such as 64MiB.  [default: as in the source]")
@click.option(
    "--if-exists",
    type=click.Choice(["skip", "fail", "new-copy"]),
    default="skip",
    show_default=True,
    help="Action for a ledger that TARGET has.",
)
@click.option("--new-uuid", is_flag=True, help="Give copies new uuids; brokers do not find such copies.")
@click.option(
    "--unbatch", is_flag=True, help="Write one message in each entry, in ledgers with ids that no cluster assigns."
)
@click.option(
    "--compression",
    type=click.Choice(CODECS),
    help="With --unbatch: compression of messages that were in batches.  [default: none]",
)
@click.option(
    "--ledger-id",
    type=click.IntRange(min=0),
    help="With --unbatch: id of the first copy; the others follow.  [default: ids that no cluster assigns]",
)
@click.option("--no-check", is_flag=True, help="Do not read copies back.")
@click.option("--dry-run", is_flag=True, help="Print what would be copied, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result for each ledger as JSON.")
@click.pass_context
def offload(
    context: click.Context,
    /,
    bucket: "Bucket",
    target: "Bucket",
    *,
    topics: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401  (click's)
) -> None:
    """Copy ledgers to another bucket, and read the copies back.

    TARGET is a bucket or a folder. Ledgers keep their names, and without --block-size their bytes, so a broker can serve the copy.
    The saved schemas of the topics are copied, too; if TARGET has another schema of the same version, nothing is copied. After an
    interruption, run the command again: it skips ledgers that TARGET has (same topic, id, last entry, length and creation time;
    with --unbatch: ledgers made from the same source ledger).

    Exit code 1: ledgers were not copied because they are damaged, missing, contradictory, still being written, different in TARGET,
    or in TARGET under another id; each is listed. 3: the store refused some.

    \b
    Examples:
      ledgerfs offload s3://tier s3://tier-backup --dry-run
      ledgerfs offload s3://tier s3://tier-backup
      ledgerfs offload s3://tier /backup/tier --topic persistent://public/default/orders
      ledgerfs offload s3://tier s3://tier -O endpoint_url=https://other:9000 --block-size 64MiB
      ledgerfs offload s3://tier s3://archive --unbatch --compression zstd
    """
    if not options["unbatch"]:
        for name in ("ledger_id", "compression"):
            if options[name] is not None:
                raise click.UsageError(f"--{name.replace('_', '-')} needs --unbatch; other copies are not changed")
    # These import numpy and numba, which --help does not need.
    from ledgerfs.cache.block_cache import process_cache
    from ledgerfs.writing.copy_ledgers import copy_ledgers

    # Each byte is read once, so the cache only needs the parts that are being copied.
    process_cache.resize(min(process_cache.budget, _READ_BYTES))
    with progress() as update:
        catalog = bucket.refresh(update)
    is_checked = not options.pop("no_check")
    reported: list[dict[str, Any]] | None = [] if as_json else None
    with progress(in_bytes=True) as update:
        report = copy_ledgers(
            bucket, target, topics=topics or None, check=is_checked, allow_incomplete=True, catalog=catalog,
            on_ledger=partial(_tell, reported), dry_run=dry_run, progress=update, **options,
        )  # fmt: skip
    for finding in report.missing:
        say(f"failed  {finding.key}: {finding.message}")
    if reported is not None:
        print_json(reported + [_finding_as_json(finding) for finding in report.missing])
    else:
        click.echo(_summary(report, is_checked=is_checked, is_dry=dry_run))
    if not report.is_complete:
        context.exit(EXIT_STORAGE if report.is_refused and bucket.on_unreadable == "raise" else 1)


def _tell(reported: list[dict[str, Any]] | None, one: "CopiedLedger") -> None:
    """Report why a ledger failed, print one that would be copied, and collect its outcome for JSON."""
    ref = one.source
    if one.error is not None:
        say(f"failed  ledger {ref.ledger_id} of {ref.topic}: {one.error}")
    if reported is not None:
        reported.append(_as_json(one))
    elif one.outcome == "planned":
        size = human_size(ref.length)
        click.echo(printable(f"would copy  ledger {one.ledger_id} of {ref.topic}: {ref.entries:,} entries, {size}"))


def _summary(report: "CopyReport", *, is_checked: bool, is_dry: bool) -> str:
    """Return the summary line."""
    checked = ", read back and whole" if is_checked and not is_dry else ""
    count = f"to copy: {report.planned:,}" if is_dry else f"copied: {report.copied:,}"
    schemas = f", schemas: {report.schemas:,}" if report.schemas else ""
    failed = len(report.failed) + len(report.missing)
    copied = f"ledgers {count} ({human_size(report.size)} of entries{checked}){schemas}"
    return f"{copied}, there already: {report.skipped:,}, failed: {failed:,}"


def _finding_as_json(finding: "Finding") -> dict[str, Any]:
    uuid = _UUID.search(finding.key or "")
    return {
        "topic": finding.topic,
        "ledger_id": finding.ledger_id,
        "uuid": None,
        "source_ledger_id": finding.ledger_id,
        "source_uuid": uuid.group() if uuid else None,
        "outcome": "failed",
        "entries": None,
        "bytes": None,
        "error": finding.message,
    }


def _as_json(one: "CopiedLedger") -> dict[str, Any]:
    return {
        "topic": one.source.topic,
        "ledger_id": one.ledger_id,
        "uuid": one.uuid,
        "source_ledger_id": one.source.ledger_id,
        "source_uuid": one.source.uuid,
        "outcome": one.outcome.value,
        "entries": one.source.entries,
        "bytes": one.source.length,
        "error": None if one.error is None else str(one.error),
    }
