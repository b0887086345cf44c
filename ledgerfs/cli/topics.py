"""``ledgerfs topics``: list the topics of a bucket."""

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.cli.commands import command
from ledgerfs.cli.group import EXIT_STORAGE
from ledgerfs.cli.notices import notice
from ledgerfs.cli.options import disks_argument, json_option
from ledgerfs.cli.output import minute, print_json, progress, say, show, table
from ledgerfs.display import human_size, printable

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.catalog.catalog import Catalog
    from ledgerfs.catalog.topic_infos import TopicInfo
    from ledgerfs.errors import LedgerfsError


@command()
@disks_argument
@click.option(
    "--schemas",
    "with_schemas",
    is_flag=True,
    help="Show saved schemas, too; reads the newest message of each topic.",
)
@json_option
def topics(bucket: "Bucket", *, with_schemas: bool, as_json: bool) -> None:
    """List the topics of a bucket with their sizes and times.

    BUCKET is a URL that fsspec opens (s3://tier, gs://…, abfs://…) or a folder. "Oldest" and "newest" are the
    creation times of the topic's oldest and newest ledger. Missing ledgers are not counted; they, ledgers of unknown topics, and ledgers
    that are being uploaded are reported on standard error.

    With --schemas, the column "schemas" is the number of saved versions. Topics whose newest message has an unsaved version are
    listed on standard error. Save them while the cluster exists: without them values stay bytes. For a live cluster, "?" marks a
    topic whose schemas are damaged (exit code 1).

    \b
    Examples:
      ledgerfs topics s3://tier
      ledgerfs topics pulsar+zk://zk1:2181,zk2:2181
      ledgerfs topics s3://tier --schemas
      ledgerfs topics s3://tier -o endpoint_url=http://127.0.0.1:9000
      ledgerfs topics /backup/tier --json | jq '.[].name'
    """
    with progress() as update:
        catalog = bucket.load_to_name_topics(update)
    found, unplaced = catalog.topics(), len(catalog.unplaced())
    damaged: dict[str, LedgerfsError] = {}
    schemas = _schemas(bucket, found, damaged) if with_schemas else {}
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
                    "newest": iso_time(topic.newest_ms),
                    "uploaded": iso_time(topic.uploaded_ms or None),
                    "missing": topic.missing,
                    "unplaced_in_bucket": unplaced,
                    **(schemas[topic.name].as_json() if schemas else {}),
                }
                for topic in found
            ]
        )
    elif found:
        _show_table(found, {name: one.shown for name, one in schemas.items()})
    for topic in found:
        if topic.missing:
            say(f"{topic.name}: {topic.missing:,} ledgers are missing")
    are_refused = _say_refused(catalog, found)
    _say_lacking(bucket, schemas, damaged)
    bucket.warn_of_unplaced([None, *catalog.known_names], catalog)
    notice(bucket, catalog)
    # The length of a cluster's topic is unknown if some of its ledgers are missing.
    if damaged or (not bucket.has_objects and any(topic.missing for topic in found)):
        click.get_current_context().exit(1)
    if are_refused:
        click.get_current_context().exit(1 if bucket.on_unreadable == "skip" else EXIT_STORAGE)


def _say_refused(catalog: "Catalog", found: "list[TopicInfo]") -> bool:
    """Report ledgers that the store refuses to show; return whether there are any."""
    incomplete = (topic.managed_ledger for topic in found if topic.missing)
    missing = (one for name in incomplete for one in catalog.missing_of(name))
    refused = [one for one in missing if one.refusal is not None]
    if refused:
        first = refused[0]
        say(f"{len(refused):,} of these ledgers cannot be read, the first at {first.key}: {first.why}")
    return bool(refused)


def _say_lacking(bucket: "Bucket", schemas: "dict[str, _Schemas]", damaged: "dict[str, LedgerfsError]") -> None:
    """Report topics with unreadable schemas, and missing versions."""
    for name, error in damaged.items():
        say(f"{name}: its schemas cannot be read: {error}")
    for name, of_topic in schemas.items():
        if of_topic.unsaved:
            versions = ", ".join(map(str, of_topic.unsaved))
            if not bucket.source.keeps_schemas:
                say(
                    f"{name}: schema version {versions} is not saved; save it while the cluster is running: ledgerfs schemas save"
                )
            else:
                say(f"{name}: schema version {versions} is lost: the cluster no longer has it")


def _show_table(found: "list[TopicInfo]", schemas: dict[str, str]) -> None:
    own = ("ledgers", "entries", "bytes")
    columns = ("topic", *own, "oldest", "newest", *(("schemas",) if schemas else ()))
    rows = table(*columns, right=(*own, "schemas"))
    for topic in found:
        rows.add_row(
            printable(topic.name),
            f"{topic.ledgers:,}",
            f"{topic.entries:,}",
            human_size(topic.bytes),
            minute(topic.created_ms),
            minute(topic.newest_ms),
            *((schemas[topic.name],) if schemas else ()),
        )
    if len(found) > 1:
        ledgers, entries, size = (sum(getattr(topic, name) for topic in found) for name in own)
        rows.add_row(f"total of {len(found):,} topics", f"{ledgers:,}", f"{entries:,}", human_size(size))
    show(rows)


class _Schemas(NamedTuple):
    """The number of saved schema versions of a topic, and unsaved versions that its newest message uses; None if damaged."""

    saved: int | None
    unsaved: list[int] | None

    def as_json(self) -> dict[str, Any]:
        return {"schemas": self.saved, "unsaved_schemas": self.unsaved}

    @property
    def shown(self) -> str:
        return "?" if self.saved is None else str(self.saved)


def _schemas(bucket: "Bucket", topics: "list[TopicInfo]", damaged: "dict[str, LedgerfsError]") -> dict[str, _Schemas]:
    """Return the schemas of each topic; add topics with unreadable schemas to ``damaged``."""
    # These import numpy and numba, which a list of topics does not need.
    from ledgerfs.bucket.known_schemas import KnownSchemas
    from ledgerfs.errors import CorruptObjectError
    from ledgerfs.formats.topic_names import schema_topic
    from ledgerfs.verification.unsaved_schemas import newest_named, unsaved_versions

    saved = KnownSchemas(bucket).all_versions(damaged.__setitem__)
    found = {}
    with progress() as update:
        for done, topic in enumerate(topics, 1):
            owner = schema_topic(topic.managed_ledger) or ""
            known = saved.get(owner, ())
            try:
                named = newest_named(bucket.readers_of(topic.managed_ledger, bucket.catalog))
            except CorruptObjectError as error:
                say(f"{topic.name}: its newest message cannot be read: {error}")
                named = set()
            if owner in damaged:
                found[topic.name] = _Schemas(None, None)
            else:
                count = sum(not one.is_deletion for one in known)
                found[topic.name] = _Schemas(count, unsaved_versions(known, named))
            update("reading newest messages", done, len(topics))
    return found
