"""``ledgerfs schemas save``: save the schemas of all topics from a live cluster beside the bucket."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.notices import notice
from ledgerfs.cli.options import json_option, opened_here, optional_bucket_argument
from ledgerfs.cli.output import print_json, progress, say
from ledgerfs.cli.schemas.places import place_option, saved_at
from ledgerfs_cluster.cli.broker_options import admin_requests, broker_argument

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs_cluster.pulsar_admin.saving import SavedTopic

_OF_A_CLUSTER = "pulsar+zk://"


@command()
@broker_argument
@optional_bucket_argument
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated.")
@place_option("--to", "Save them at this URL instead of in the bucket's folder _ledgerfs/schemas.")
@json_option
@click.pass_context
def save(
    context: click.Context,
    /,
    *,
    broker: str,
    bucket: "Bucket | None",
    topics: tuple[str, ...],
    place: tuple[str, dict[str, Any]] | None,
    as_json: bool,
    **access: Any,  # noqa: ANN401  (of the broker)
) -> None:
    """Save schemas from a broker or a live cluster.

    Saves every version of the schemas of a bucket's topics. BROKER is the address of its web service (http://host:8080,
    https://host:8443), or a live cluster (pulsar+zk://host:port,…), which also has deleted versions, except those deleted by force.
    Without BUCKET the schemas of all topics are saved at --to; options -o are then the cluster's.

    Saved versions stay: run the command again and again. Save the schemas of each cluster in a place of its own. Versions that the
    cluster deleted before cannot be saved.

    Exit code 1: the schemas of some topics could not be saved. They are listed; the others are saved.

    \b
    Examples:
      ledgerfs schemas save http://broker:8080 s3://tier
      ledgerfs schemas save https://broker:8443 s3://tier --token-file token.txt --tls-ca ca.pem
      ledgerfs schemas save http://broker:8080 s3://tier --topic public/default/orders --to /backup/schemas
      ledgerfs schemas save pulsar+zk://zk1:2181 --to s3://tier/_ledgerfs/schemas
    """
    # These import numpy and fsspec, which --help does not need.
    from ledgerfs.bucket.known_schemas import KnownSchemas
    from ledgerfs_cluster.pulsar_admin.saving import save_schemas
    from ledgerfs_cluster.pulsar_admin.schemas import AdminApi

    cluster = _cluster(context, broker, bucket)
    source = AdminApi(admin_requests(broker, **access)) if cluster is None else KnownSchemas(cluster)
    of_topics = bucket or cluster
    if of_topics is None:
        raise click.UsageError("Missing argument 'BUCKET': the schemas of its topics are saved.")
    saved = saved_at(of_topics, place, make=True)
    if bucket is None and not topics and isinstance(source, KnownSchemas):
        names = source.topics()
    else:
        with progress() as update:
            of_topics.refresh(update)
        names = _names(of_topics, topics)
    done = []
    with progress() as update:
        for one in save_schemas(source, saved, names):
            done.append(one)
            update("saving schemas", len(done), len(names))
    _report(done, saved.source, as_json=as_json)
    if not names:
        notice(of_topics, of_topics.catalog)
    if any(one.error is not None for one in done):
        context.exit(1)


def _cluster(context: click.Context, broker: str, bucket: "Bucket | None") -> "Bucket | None":
    """Return the live cluster if BROKER names one; None for a broker."""
    if not broker.startswith(_OF_A_CLUSTER):
        return None
    if bucket is None:
        return opened_here(context, broker)
    # This imports numpy, which --help does not need.
    from ledgerfs.bucket.opening import open_bucket

    return open_bucket(broker)


def _names(bucket: "Bucket", topics: tuple[str, ...]) -> list[str]:
    """Return the topics, each once: partitions share the schemas of the whole topic."""
    from ledgerfs.errors import InvalidNameError
    from ledgerfs.formats.topic_names import schema_owner

    if topics:
        return list(dict.fromkeys(schema_owner(bucket.topic(name).name).topic for name in topics))
    found: dict[str, None] = {}
    for topic in bucket.topics():
        try:
            found[schema_owner(topic.managed_ledger or "").topic] = None
        except InvalidNameError:
            say(f"{topic.name}: skipped, since this is not a valid topic name")
    return list(found)


def _report(done: "list[SavedTopic]", place: str, *, as_json: bool) -> None:
    if as_json:
        topics = [
            {
                "topic": one.topic,
                "versions": one.versions,
                "new": one.new,
                "error": None if one.error is None else str(one.error),
            }
            for one in done
        ]
        print_json({"place": place, "topics": topics})
    for one in done:
        if one.error is not None:
            say(f"{one.topic}: not saved: {one.error}")
    failed = sum(one.error is not None for one in done)
    without = sum(one.error is None and not one.versions for one in done)
    versions, new = sum(one.versions for one in done), sum(one.new for one in done)
    text = f"{place}: {versions:,} schema versions of {len(done) - failed - without:,} topics, {new:,} new"
    text += f"; {without:,} topics have no schema" if without else ""
    say(text + (f"; {failed:,} topics failed" if failed else ""))
