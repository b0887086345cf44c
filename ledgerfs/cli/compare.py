"""``ledgerfs compare``: find what a copy of a bucket lacks."""

from collections import Counter
from typing import TYPE_CHECKING

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.options import bucket_argument, json_option, target_argument
from ledgerfs.cli.output import print_json, progress, say
from ledgerfs.display import printable

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket


@command()
@bucket_argument
@target_argument
@click.option("--bytes", "with_bytes", is_flag=True, help="Read and compare all entries, too.")
@json_option
@click.pass_context
def compare(context: click.Context, bucket: "Bucket", target: "Bucket", *, with_bytes: bool, as_json: bool) -> None:
    """Compare the ledgers and saved schemas of two buckets.

    Prints a line for each ledger that TARGET lacks (missing), that only TARGET has (extra), that differs in entries, bytes or creation
    (different), or that BUCKET itself has incompletely (unreadable). Exit code 1 if there is any; 0 if TARGET is a whole copy of BUCKET.

    \b
    Examples:
      ledgerfs compare s3://tier s3://tier-backup
      ledgerfs compare s3://tier /backup/tier --bytes
      ledgerfs compare s3://tier s3://tier-backup -O endpoint_url=http://backup:9000 --json | jq length
    """
    # This imports numpy, which --help does not need.
    from ledgerfs.verification import compare as comparing

    with progress(in_bytes=True) as update:
        done = 0

        def on_read(size: int) -> None:
            nonlocal done
            done += size
            update("compared", done, None)

        found = list(comparing.compare(bucket, target, with_bytes=with_bytes, on_read=on_read))
    if as_json:
        print_json([one.as_json() for one in found])
    for one in () if as_json else found:
        ledger = "schema" if one.is_schema else "ledger ?" if one.ledger_id is None else f"ledger {one.ledger_id}"
        click.echo(f"{one.kind.value}: {printable(one.topic)} {ledger}: {printable(one.reason)}")
    counts = Counter(one.kind.value for one in found)
    say(", ".join(f"{count:,} {kind}" for kind, count in counts.items()) or "no differences")
    if found:
        context.exit(1)
