"""Making a survey: of a living cluster, of what was suspect in one, or of a dump of one."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ledgerfs.formats.array_types import Int64
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs_cluster.formats.managed_ledgers.names import COMPACTION
from ledgerfs_cluster.snapshot.answered_nodes import answered
from ledgerfs_cluster.snapshot.answers import BookieReads, SchemaAnswer
from ledgerfs_cluster.snapshot.dump_file import DumpEnd, DumpHeader
from ledgerfs_cluster.snapshot.kept_dumps import read_dump_at
from ledgerfs_cluster.snapshot.questions import Questions
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.survey_builder import SurveyBuilder
from ledgerfs_cluster.snapshot.walk import BOOKIES, PARTS, SCHEMAS_PART, TOPICS, Walk
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster
from ledgerfs_cluster.zookeeper.node import Node

Progress = Callable[[str, int, int | None], None]
"""Is told what is done, how much of it, and of how much, if that is known."""

EVERY = 256
"""Nodes after which progress is told."""
One = TypeVar("One")


def survey_cluster(
    cluster: LivingCluster,
    bookies: BookieReads | None,
    progress: Progress,
    parts: Sequence[str] = PARTS,
    *,
    skips_denied: bool = False,
) -> Survey:
    """Read a cluster, or only some of its `PARTS`; nothing is written to it.

    With ``skips_denied`` nodes that may not be read are damaged ones, and so are folders that may not be listed, but for those of ledgers,
    topics and owners: nobody knows what is below, and what is told of others would be wrong.

    Raises `BucketNotFoundError` if the servers have no ledgers, `AccessDeniedError` for other nodes that may not be read, and
    `StoreUnreachableError`.
    """
    path, began_ms = cluster.reading.ledgers_path, time.time_ns() // 1_000_000
    builder = SurveyBuilder(path)
    walk = Walk(cluster.nodes, path, on_denied=builder.take_denied if skips_denied else None)
    for part in parts:
        take_all(walk.part(part), builder.take, f"reading {part}", progress)
    questions = Questions(builder, cluster.nodes, bookies, path, has_schemas=SCHEMAS_PART in parts)
    take_all(questions.answers(), builder.answer, "asking bookies", progress, len(questions))
    return builder.survey(cluster.url, time.time_ns() // 1_000_000, began_ms)


def survey_dump(place: Path | str, progress: Progress, storage_options: Mapping[str, Any] | None = None) -> Survey:
    """Read a dump, a file or one that is kept beside a bucket; raises as `ledgerfs_cluster.snapshot.kept_dumps.read_dump_at`."""
    builder, began_ms, ended_ms = SurveyBuilder(), 0, 0
    for done, record in enumerate(read_dump_at(str(place), storage_options)):
        match record:
            case DumpHeader():
                builder, began_ms = SurveyBuilder(record.ledgers_path), record.began_ms
            case Node():
                builder.take(record)
            case DumpEnd():
                ended_ms = record.ended_ms
            case SchemaAnswer():
                pass
            case _:
                builder.answer(record)
        if done % (4 * EVERY) == 0:
            progress("reading the dump", done, None)
    return builder.survey(str(place), ended_ms, began_ms)


def look_again(
    cluster: LivingCluster,
    ledger_ids: Int64,
    bookies: BookieReads | None,
    progress: Progress,
    *,
    skips_denied: bool = False,
) -> Survey:
    """Return a survey of some ledgers alone, with all topics, subscriptions, schemas, and bookies; policies and owners of bundles are left.

    In this order a ledger that is gone by then was trimmed, or is lost if its list still names it; and one that is there by then and is
    not named afterwards is an orphan, since whoever made it has had the time between the looks to name it.

    ``skips_denied`` and what is raised is as of `ledgerfs_cluster.snapshot.surveying.survey_cluster`.
    """
    # Of a server that is behind, all that the second look shows may be as old as what the first one has shown.
    cluster.nodes.catch_up()
    path, began_ms = cluster.reading.ledgers_path, time.time_ns() // 1_000_000
    builder = SurveyBuilder(path)
    paths = (ledger_path(one, path) for one in ledger_ids.tolist())
    on_denied = builder.take_denied if skips_denied else None
    for _, node in answered(cluster.nodes.get_many, paths, on_denied):
        builder.take(node)
    walk = Walk(cluster.nodes, path, on_denied=on_denied)
    for part in (TOPICS, SCHEMAS_PART, BOOKIES):
        take_all(walk.part(part), builder.take, f"reading {part} again", progress)
    for answer in Questions(builder, cluster.nodes, bookies, path).cursors(COMPACTION):
        builder.answer(answer)
    return builder.survey(cluster.url, time.time_ns() // 1_000_000, began_ms)


def take_all(
    some: Iterable[One], take: Callable[[One], object], what: str, progress: Progress, total: int | None = None
) -> None:
    """Take nodes or answers as they come, and tell progress."""
    done = 0
    for done, one in enumerate(some, 1):
        take(one)
        if done % EVERY == 0:
            progress(what, done, total)
    progress(what, done, done if total is None else total)
