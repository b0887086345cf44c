"""``ledgerfs import``: rows of a file as messages of a new ledger."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.notices import announce_compiling
from ledgerfs.cli.options import CODECS, bucket_argument
from ledgerfs.cli.output import print_json, progress, say
from ledgerfs.cli.parameter_types import LocalPath, Size
from ledgerfs.display import human_size
from ledgerfs.errors import InvalidOptionError

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket


@command("import")
@click.argument("rows", metavar="ROWS")
@bucket_argument
@click.argument("topic")
@click.option(
    "--ledger-id", type=click.IntRange(min=0), help="Id of the new ledger.  [default: one that no cluster assigns]"
)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Most messages in one entry; 1 writes no batches.",
)
@click.option(
    "--compression", type=click.Choice(CODECS), default="none", show_default=True, help="Compression of payloads."
)
@click.option("--producer-name", default="ledgerfs", show_default=True, help="Producer name of rows without one.")
@click.option("--block-size", type=Size(), default="64MiB", show_default=True, help="Block size of the data object.")
@click.option(
    "--max-entry-size", type=Size(), default="5MiB", show_default=True, help="Largest entry; Pulsar's maxMessageSize."
)
@click.option(
    "--if-exists",
    type=click.Choice(["fail", "new-copy"]),
    default="fail",
    show_default=True,
    help="Action if BUCKET has a ledger of this id.",
)
@click.option(
    "--schema",
    metavar="FILE",
    type=LocalPath(),
    help="An Avro schema (.avsc) to write values with; their fields are columns of ROWS.",
)
@click.option(
    "--schema-type",
    metavar="TYPE",
    help="Type of values: avro, json, or a primitive type without a FILE (string, int64, …).  [default: avro, with --schema]",
)
@click.option(
    "--schema-version",
    metavar="N",
    type=click.IntRange(min=0),
    help="Version of the schema in the topic.  [default: that of the equal saved schema; 0 for a new topic]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def import_rows(bucket: "Bucket", *, rows: str, topic: str, as_json: bool, **options: Any) -> None:  # noqa: ANN401  (click's)
    """Write rows of files as messages of a new ledger.

    ROWS is a Parquet, Arrow, JSON lines or CSV file, a folder of such files, a pattern, or a URL of one. All files of a folder or
    pattern are read, except names that begin with . or _; subfolders and other suffixes are errors. Columns are those of `ledgerfs
    export`: value, key or key_bytes, properties, event_time, publish_time, ordering_key, producer_name, sequence_id,
    schema_version, deliver_at_time, replicated_from. Position columns (topic, ledger_id, …) are ignored.

    With --schema or --schema-type, values come from the column value (null: a tombstone), else each other column is a field, as
    `ledgerfs export --values typed --flatten` writes it. The schema is saved in the bucket; messages refer to its version.

    ledgerfs reads the new ledger at once; a broker only after the ledger is added to its metadata. Without --ledger-id the id is
    above 2^52, where no cluster assigns ids.

    \b
    Examples:
      ledgerfs import rows.parquet s3://tier persistent://public/default/orders
      ledgerfs import rows.parquet s3://tier public/default/orders --batch 1000 --compression zstd
      ledgerfs import export/ s3://tier public/default/restored --ledger-id 1000
      ledgerfs import orders.parquet s3://tier public/default/orders --schema orders.avsc
      ledgerfs import counts.parquet s3://tier public/default/counts --schema-type int64 --schema-version 0
      ledgerfs import 'lake/**/*.parquet' s3://tier public/default/orders
    """
    if options["schema_version"] is not None and options["schema"] is None and options["schema_type"] is None:
        raise InvalidOptionError("needs the schema itself: pass --schema or --schema-type too", key="--schema-version")
    # This imports pyarrow and numba, which --help does not need.
    from ledgerfs.writing import imports

    announce_compiling()
    with progress() as update:
        done = imports.import_rows(
            bucket,
            rows,
            topic,
            max_entry_bytes=options.pop("max_entry_size"),
            progress=update,
            **options,
        )
    key, metadata = done.written.ledger.key, done.written.offload_index.metadata
    if as_json:
        print_json(
            {
                "ledger_id": key.ledger_id,
                "uuid": key.uuid,
                "messages": done.messages,
                "entries": metadata.entries,
                "length": metadata.length,
                "ignored_columns": list(done.ignored_columns),
                "schema_version": done.schema_version,
            }
        )
        return
    left_out = f"; not used: {', '.join(done.ignored_columns)}" if done.ignored_columns else ""
    version = f", schema version {done.schema_version}" if done.schema_version is not None else ""
    size = f"{metadata.entries:,} entries, {human_size(metadata.length)}"
    say(f"ledger {key.ledger_id}: {done.messages:,} messages in {size}{version}{left_out}")
