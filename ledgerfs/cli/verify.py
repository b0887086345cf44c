"""``ledgerfs verify``: check that all ledgers of a bucket are readable."""

from typing import TYPE_CHECKING

import click

from ledgerfs.catalog.findings import Finding, Report, Severity
from ledgerfs.cli.commands import command
from ledgerfs.cli.group import conclude
from ledgerfs.cli.notices import notice
from ledgerfs.cli.options import disks_argument, json_option
from ledgerfs.cli.output import print_json, progress
from ledgerfs.display import human_size, printable

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket


@command()
@disks_argument
@click.option(
    "--quick", is_flag=True, help="Compare indexes and sizes only; reads no data, and still finds truncated offloads."
)
@json_option
@click.pass_context
def verify(context: click.Context, bucket: "Bucket", quick: bool, as_json: bool) -> None:
    """Check that every offloaded ledger of a bucket is whole.

    Reads every object: block headers, the id and length of each record, padding, the CRC32C of each entry that has one, counts and
    lengths against the ledger's metadata, pairs of data and index objects, and the user metadata that brokers require.

    Exit code 0: no damage; 1: damage; 3: the store refused some objects.

    \b
    Examples:
      ledgerfs verify s3://tier
      ledgerfs verify --quick s3://tier
      ledgerfs verify --json s3://tier | jq '.findings[] | select(.severity == "damage")'
    """
    # This imports numpy, which --help does not need.
    from ledgerfs.verification.verify import verify_listed

    with progress() as update:
        catalog = bucket.survey(update)
    with progress(in_bytes=True) as update:
        report = verify_listed(bucket, catalog, quick=quick, progress=update)
    print_report(context, bucket, report, as_json=as_json)


def print_report(context: click.Context, bucket: "Bucket", report: Report, *, as_json: bool) -> None:
    """Print a report, and exit with its code."""
    if as_json:
        print_json(report.as_json())
    else:
        _print(bucket, report)
    conclude(context, is_sound=not report.is_damaged, is_complete=report.is_complete)


def _print(bucket: "Bucket", report: Report) -> None:
    """Print findings, and a verdict."""
    for finding in report.findings:
        click.echo(printable(_line(finding)))
    if report.is_complete and bucket.catalog.is_empty:
        notice(bucket, bucket.catalog)
        return
    checked = "indexes and sizes" if report.quick else f"{report.entries:,} entries, {human_size(report.bytes)}"
    damage = sum(finding.severity is Severity.DAMAGE for finding in report.findings)
    verdict = f"damage in {damage} places" if damage > 1 else "damage in one place" if damage else "no damage"
    if not report.is_complete:
        verdict += ", but not everything could be checked"
    click.echo(f"ledgers checked: {report.ledgers:,} ({checked}); {verdict}")


def _line(finding: Finding) -> str:
    place = finding.key or ""
    if finding.offset is not None:
        place += f" at byte {finding.offset}"
    whose = f" ({finding.topic})" if finding.topic else ""
    return f"{finding.severity.value}  {finding.kind}  {place}{': ' if place else ''}{finding.message}{whose}"
