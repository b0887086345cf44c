"""``ledgerfs spark verify``: check with Spark tasks that all ledgers of a bucket are readable."""

from typing import TYPE_CHECKING

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.options import json_option
from ledgerfs.cli.output import progress
from ledgerfs.cli.spark.options import SessionOptions, session_options, storage_argument
from ledgerfs.cli.spark.running import run_script, running
from ledgerfs.cli.verify import print_report

if TYPE_CHECKING:
    from ledgerfs.spark.runtime.storage import Storage


@command()
@storage_argument
@session_options
@click.option(
    "--quick", is_flag=True, help="Compare indexes and sizes only; reads no data, and still finds truncated offloads."
)
@json_option
@click.pass_context
def verify(context: click.Context, *, storage: "Storage", session: SessionOptions, quick: bool, as_json: bool) -> None:
    """Check all offloaded ledgers, many at a time.

    Prints the same findings as `ledgerfs verify`. The driver compares listing and indexes; tasks of about 128 MiB read every byte.

    Exit code 1: damage; 3: the store refused some objects.

    \b
    Examples:
      ledgerfs spark verify s3://tier
      ledgerfs spark verify s3://tier --master 'local[8]'
      ledgerfs spark verify s3://tier --master spark://host:7077 --json > findings.json
    """
    with running(session, "ledgerfs verify") as spark:
        # This imports Spark, an optional dependency.
        from ledgerfs.spark.pipelines.verify import prepare

        with progress() as update:
            verification = prepare(spark, storage, quick=quick, progress=update)
        report = verification.report()
    print_report(context, verification.bucket, report, as_json=as_json)


if __name__ == "__main__":
    # spark-submit runs this module as a script.
    run_script("verify")
