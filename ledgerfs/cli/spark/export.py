"""``ledgerfs spark export``: topics as Parquet or JSON lines in a lake, written by Spark's tasks."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.notices import say_left_out, say_undecodable_before
from ledgerfs.cli.options import json_option, parsed_options
from ledgerfs.cli.output import human_size, print_json, say, show, table
from ledgerfs.cli.parameter_types import Size
from ledgerfs.cli.scan_options import parsed_names, scan_options
from ledgerfs.cli.spark.options import SessionOptions, session_options, storage_argument
from ledgerfs.cli.spark.running import run_script, running
from ledgerfs.display import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ledgerfs.spark.pipelines.export import LakeExport
    from ledgerfs.spark.pipelines.export_outcome import TopicExport
    from ledgerfs.spark.pipelines.export_request import ExportRequest
    from ledgerfs.spark.runtime.storage import Storage

_KINDS = ("parquet", "jsonl", "arrow", "csv")


@command()
@storage_argument
@session_options
@click.option(
    "--topic", "topics", metavar="NAME", multiple=True, help="A topic; may be repeated. All topics if not given."
)
@click.option("--topics", "pattern", metavar="PATTERN", help="A regular expression that whole names of topics match.")
@click.option("--to", required=True, metavar="URL", help="The folder to export to.")
@click.option(
    "-O", "--to-option", "to_options", multiple=True, metavar="KEY=VALUE",
    help="Option of that folder's filesystem, as -o is for the bucket's; may be repeated.",
)  # fmt: skip
@click.option(
    "--format", "kind", type=click.Choice(_KINDS), default="parquet", show_default=True, help="What to write."
)
@click.option(
    "--partition-by", metavar="A,B,…", callback=parsed_names,
    help="Folders by value: topic, date, hour (of publish_time, UTC), partition, ledger_id, producer_name.",
)  # fmt: skip
@click.option("--incremental", is_flag=True, help="Add what is new since the last export to this folder.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier export to this folder.")
@click.option(
    "--partition-bytes", type=Size(), metavar="SIZE", help="About how much a task reads, 128MiB if not given."
)
@scan_options
@json_option
@click.pass_context
def export(
    context: click.Context,
    /,
    *,
    storage: "Storage",
    session: SessionOptions,
    to: str,
    to_options: tuple[str, ...],
    kind: str,
    incremental: bool,
    overwrite: bool,
    as_json: bool,
    **wanted: Any,  # noqa: ANN401  (options of a request)
) -> None:
    """Export topics to a folder that Spark, Hive, DuckDB and pyarrow read as one table.

    Half of an export is never seen: files appear together at the end, and _SUCCESS after them. Run it again with --incremental when topics
    have grown, or after an interruption: ledgers that are exported already are not read again.

    Exit code 1: damaged entries or values that could not be decoded are missing in the files, or files that cannot be made again have
    values by other schemas than the bucket has now; they were named.

    \b
    Examples:
      ledgerfs spark export s3://tier --to s3://lake/events --partition-by topic,date
      ledgerfs spark export s3://tier --to s3://lake/events --partition-by topic,date --incremental
      ledgerfs spark export s3://tier --topics 'persistent://public/golden/.*' --to s3://lake/golden --format jsonl
      ledgerfs spark export s3://tier --topic public/default/orders --to /data/orders --start 2026-11-01
      ledgerfs spark export s3://tier --topic public/default/orders --to s3://lake/orders --values typed --flatten
      ledgerfs spark export s3://tier --to s3://lake/all --master spark://host:7077 -O endpoint_url=http://minio:9000
    """
    to_storage = parsed_options(to_options)
    with running(session, "ledgerfs export") as spark:
        # These import Spark, pyarrow and numba, which are not on every machine.
        from ledgerfs.spark.pipelines.export import run_export
        from ledgerfs.spark.runtime.storage import Storage

        done = run_export(
            spark, storage, Storage(to, to_storage), _request(kind, **wanted), incremental=incremental, overwrite=overwrite
        )  # fmt: skip
    is_damaged = _say_what_is_missing(done.topics)
    if as_json:
        print_json(_as_json(done))
    else:
        _print_topics(done.topics)
    say(f"{to}: {len(done.files):,} files, {sum(one.messages for one in done.files):,} messages, "
        f"{human_size(sum(one.bytes for one in done.files))}{_kept(done.topics)}")  # fmt: skip
    if is_damaged:
        context.exit(1)


def _request(
    kind: str,
    *,
    topics: tuple[str, ...],
    pattern: str | None,
    partition_by: tuple[str, ...] | None,
    partition_bytes: int | None,
    scan: dict[str, Any],
) -> "ExportRequest":
    from ledgerfs.bucket.partition_plan import DEFAULT_PARTITION_BYTES
    from ledgerfs.spark.pipelines.export_request import ExportRequest

    size = DEFAULT_PARTITION_BYTES if partition_bytes is None else partition_bytes
    return ExportRequest(kind, partition_by or (), topics or None, pattern, size, scan)


def _say_what_is_missing(topics: "Sequence[TopicExport]") -> bool:
    """Say what this export and earlier ones left out, or cannot make again; return whether there was damage."""
    # Of the room of Spark, which is not on every machine.
    from ledgerfs.spark.source.left_out import summed

    is_damaged = False
    for topic in topics:
        is_damaged |= say_left_out(topic, summed(topic.undecodable))
        is_damaged |= topic.skipped_before + topic.undecodable_before > 0
        if topic.skipped_before:
            say(f"{topic.topic}: {topic.skipped_before:,} damaged entries were left out before")
        say_undecodable_before(topic)
        if topic.held:
            ledgers = f"{topic.held[0]}" if len(set(topic.held)) == 1 else f"{min(topic.held)} to {max(topic.held)}"
            say(
                f"{topic.topic}: the files of ledgers {ledgers} stay as they are, since some of these, or others that they have rows from, "
                "are not in the bucket any more"
            )
        if topic.outdated:
            is_damaged = True
            say(topic.outdated_text)
        is_damaged |= bool(topic.lacking_texts)
        for text in (*topic.lacking_texts, *topic.behind_texts):
            say(text)
    return is_damaged


def _kept(topics: "Sequence[TopicExport]") -> str:
    kept = sum(topic.kept for topic in topics)
    return f"; {kept:,} kept from before" if kept else ""


def _print_topics(topics: "Sequence[TopicExport]") -> None:
    numbers = ("files", "messages", "bytes", "kept")
    shown = table("topic", *numbers, right=numbers)
    for one in topics:
        shown.add_row(
            printable(one.topic), f"{one.files:,}", f"{one.messages:,}", human_size(one.size), f"{one.kept:,}"
        )
    show(shown)


def _as_json(done: "LakeExport") -> dict[str, Any]:
    return {
        "topics": [
            {
                "topic": one.topic,
                "files": one.files,
                "messages": one.messages,
                "bytes": one.size,
                "kept": one.kept,
                "skipped": [asdict(skipped) for skipped in one.skipped],
                "skipped_before": one.skipped_before,
                "incomplete": [asdict(incomplete) for incomplete in one.incomplete],
                "undecodable": [asdict(value) for value in one.undecodable],
                "undecodable_before": one.undecodable_before,
                "unnamed_before": one.unnamed_before,
                "missing": [lost.as_json() for lost in one.missing],
                "outdated": one.outdated,
                "lacking": one.lacking_texts,
                "behind": one.behind_texts,
            }
            for one in done.topics
        ],
        "files": [asdict(one) for one in done.files],
    }


if __name__ == "__main__":
    # As a script, a pipeline is its command.
    run_script("export")
