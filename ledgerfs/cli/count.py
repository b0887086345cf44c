"""``ledgerfs count``: messages per topic."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.group import EXIT_STORAGE
from ledgerfs.cli.notices import announce_compiling, notice, say_left_out
from ledgerfs.cli.options import bucket_argument, json_option
from ledgerfs.cli.output import print_json, progress, say, show, table
from ledgerfs.cli.scan_options import scan_options
from ledgerfs.display import human_size, printable
from ledgerfs.errors import (
    AccessDeniedError,
    CorruptObjectError,
    MissingLedgerError,
    ObjectNotFoundError,
    StaleObjectError,
    StoreError,
    StoreUnreachableError,
    UnsupportedFormatError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.bucket.topic import Topic
    from ledgerfs.catalog.layout import Progress
    from ledgerfs.catalog.missing_ledgers import MissingLedger

_DAMAGE = (CorruptObjectError, MissingLedgerError, ObjectNotFoundError, StaleObjectError, UnsupportedFormatError)


@dataclass(frozen=True, slots=True)
class Count:
    """Message count of one topic; None if damage or a refused read stopped it. Incomplete chunked messages do not count."""

    name: str
    entries: int
    bytes: int
    messages: int | None
    is_damaged: bool
    is_refused: bool
    missing: "Sequence[MissingLedger]"
    incomplete: int


@command()
@bucket_argument
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@scan_options
@json_option
@click.pass_context
def count(
    context: click.Context, bucket: "Bucket", topics: tuple[str, ...], scan: dict[str, Any], *, as_json: bool
) -> None:
    """Count the messages of topics.

    Counts the messages that a Pulsar reader would receive; all topics if none is named. Reads every entry, but decompresses and
    decrypts none, except with --values typed --on-undecodable skip. Entries and bytes are those of the whole topic, also with
    --start and --end. A partitioned topic that is named counts as one topic.

    A topic gets a dash if it is damaged or the store refuses its objects; the other topics are counted. With --on-corrupt skip or
    --on-unreadable skip, its readable messages are counted.

    Exit code 0: all messages were counted; 1: damage, missing ledgers, or messages that were skipped; 3: the store refused or did
    not answer.

    \b
    Examples:
      ledgerfs count s3://tier
      ledgerfs count s3://tier persistent://public/default/orders --start 2026-11-01
      ledgerfs count s3://tier --json | jq 'map(.messages) | add'
    """
    with progress() as update:
        bucket.load_catalog(update)
    scan.pop("columns", None)
    wanted = _once([bucket.topic(name) for name in topics]) if topics else _all(bucket)
    announce_compiling()
    with progress(in_bytes=True) as update:
        counts = _count_all(bucket, wanted, scan, update)
    if as_json:
        print_json([_as_json(one) for one in counts])
    else:
        _print_table(counts)
    if not topics:
        notice(bucket, bucket.catalog)
    if any(one.is_damaged for one in counts):
        context.exit(1)
    if any(one.is_refused for one in counts):
        context.exit(EXIT_STORAGE)


def _all(bucket: "Bucket") -> "list[Topic]":
    # This imports numpy, which --help does not need.
    from ledgerfs.bucket.topic import Topic

    catalog = bucket.catalog
    # Includes topics without a readable ledger, which no count covers.
    bucket.warn_of_unplaced([None, *catalog.known_names], catalog)
    return [Topic(bucket, name) for name in catalog.managed_ledgers]


def _once(topics: "Sequence[Topic]") -> "list[Topic]":
    """Return each topic once, by name. Omit partitions of a listed partitioned topic, whose count includes them."""
    named = {(topic.name, topic.is_partitioned): topic for topic in topics}
    inside = {part.name for topic in named.values() for part in topic.partitions}
    return [named[key] for key in sorted(named) if key[0] not in inside]


def _count_all(bucket: "Bucket", topics: "Sequence[Topic]", options: dict[str, Any], update: "Progress") -> list[Count]:
    # This imports pyarrow and numba, which --help does not need.
    from ledgerfs.scan.report import ScanReport

    infos = {info.managed_ledger: info for info in bucket.topics()}
    of_topics = [[infos[name] for name in topic.managed_ledgers if name in infos] for topic in topics]
    done, total = 0, sum(info.bytes for found in of_topics for info in found)

    def add(size: int) -> None:
        nonlocal done
        done += size
        update("counting", done, total)

    counts = []
    for topic, found in zip(topics, of_topics, strict=True):
        report = ScanReport()
        messages: int | None = None
        is_damaged = is_refused = False
        try:
            # scan() infers JSON types, and so meets the same damage.
            messages = replace(topic.scan((), **options), on_read=add).count(report)
            is_damaged = say_left_out(report)
        except _DAMAGE as error:
            say(str(error) if isinstance(error, MissingLedgerError) else f"{topic.name}: {error}")
            is_damaged = True
        except StoreUnreachableError:
            raise
        except (AccessDeniedError, StoreError) as error:
            say(f"{topic.name}: {error}")
            is_refused = True
        sums = sum(info.entries for info in found), sum(info.bytes for info in found)
        left_out = topic.missing, len(report.incomplete)
        counts.append(Count(topic.name, *sums, messages, is_damaged, is_refused, *left_out))
    return counts


def _print_table(counts: list[Count]) -> None:
    if not counts:
        return
    rows = table("topic", "messages", "entries", "bytes", right=("messages", "entries", "bytes"))
    for one in counts:
        messages = "-" if one.messages is None else f"{one.messages:,}"
        rows.add_row(printable(one.name), messages, f"{one.entries:,}", human_size(one.bytes))
    messages = f"{sum(one.messages or 0 for one in counts):,}"
    entries = f"{sum(one.entries for one in counts):,}"
    rows.add_row("total", messages, entries, human_size(sum(one.bytes for one in counts)))
    show(rows)


def _as_json(one: Count) -> dict[str, Any]:
    return {
        "name": one.name,
        "messages": one.messages,
        "entries": one.entries,
        "bytes": one.bytes,
        "damaged": one.is_damaged,
        "refused": one.is_refused,
        "incomplete": one.incomplete,
        "missing": [lost.as_json() for lost in one.missing],
    }
