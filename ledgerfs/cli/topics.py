"""``ledgerfs topics``: what is in a bucket."""

from typing import TYPE_CHECKING

from ledgerfs.cli.commands import command
from ledgerfs.cli.notices import notice
from ledgerfs.cli.options import bucket_argument, json_option
from ledgerfs.cli.output import human_size, minute, print_json, progress, say, show, table
from ledgerfs.display import printable
from ledgerfs.ledgers.time_arguments import iso_time

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket


@command()
@bucket_argument
@json_option
def topics(bucket: "Bucket", as_json: bool) -> None:
    """List the topics of a bucket: ledgers, entries, bytes, oldest and newest.

    BUCKET is any URL that fsspec knows: s3://tier, gs://…, abfs://…, a local folder. No broker and no ZooKeeper is asked; the names are in
    the bucket. "Oldest" is the creation of the topic's oldest ledger, "newest" the upload of its newest one. Missing ledgers are not
    counted; standard error tells how many these are, of how many ledgers the topic is not known, and which seem to be uploaded just now.

    \b
    Examples:
      ledgerfs topics s3://tier
      ledgerfs topics s3://tier -o endpoint_url=http://127.0.0.1:9000
      ledgerfs topics /backup/tier --json | jq '.[].name'
    """
    with progress() as update:
        bucket.load_catalog(update)
    found, unplaced = bucket.topics(), len(bucket.catalog.unplaced())
    if as_json:
        print_json(
            [
                {
                    "name": topic.name,
                    "managed_ledger": topic.managed_ledger,
                    "ledgers": topic.ledgers,
                    "entries": topic.entries,
                    "bytes": topic.bytes,
                    "created": iso_time(topic.created_ms),
                    "uploaded": iso_time(topic.uploaded_ms or None),
                    "missing": topic.missing,
                    "unplaced_in_bucket": unplaced,
                }
                for topic in found
            ]
        )
    elif found:
        rows = table("topic", "ledgers", "entries", "bytes", "oldest", "newest", right=("ledgers", "entries", "bytes"))
        for topic in found:
            times = minute(topic.created_ms), minute(topic.uploaded_ms or None)
            rows.add_row(
                printable(topic.name), f"{topic.ledgers:,}", f"{topic.entries:,}", human_size(topic.bytes), *times
            )
        show(rows)
    for topic in found:
        if topic.missing:
            say(f"{topic.name}: {topic.missing:,} ledgers are missing")
    bucket.warn_of_unplaced([None, *bucket.catalog.known_names], bucket.catalog)
    notice(bucket)
