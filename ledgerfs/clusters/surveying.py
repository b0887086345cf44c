"""Making a survey: of a living cluster, or of a dump of one."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ledgerfs.clusters.answers import BookieReads, SchemaAnswer
from ledgerfs.clusters.dump_file import DumpEnd, DumpHeader, PartDone
from ledgerfs.clusters.kept_dumps import read_dump_at
from ledgerfs.clusters.questions import Questions
from ledgerfs.clusters.survey import Survey
from ledgerfs.clusters.survey_builder import SurveyBuilder
from ledgerfs.clusters.walk import PARTS, SCHEMAS_PART, Walk
from ledgerfs.storage.zookeeper.living_cluster import LivingCluster
from ledgerfs.storage.zookeeper.node import Node

Progress = Callable[[str, int, int | None], None]
"""Is told what is done, how much of it, and of how much, if that is known."""

EVERY = 256
"""Nodes after which progress is told."""


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
        done = 0
        for done, node in enumerate(walk.part(part), 1):
            builder.take(node)
            if done % EVERY == 0:
                progress(f"reading {part}", done, None)
        progress(f"reading {part}", done, done)
    questions = Questions(builder, cluster.nodes, bookies, path, has_schemas=SCHEMAS_PART in parts)
    total = len(questions)
    for done, answer in enumerate(questions.answers(), 1):
        builder.answer(answer)
        if done % EVERY == 0 or done == total:
            progress("asking bookies", done, total)
    return builder.survey(cluster.url, time.time_ns() // 1_000_000, began_ms)


def survey_dump(place: Path | str, progress: Progress, storage_options: Mapping[str, Any] | None = None) -> Survey:
    """Read a dump, a file or one that is kept beside a bucket; raises as `ledgerfs.clusters.kept_dumps.read_dump_at`."""
    builder, began_ms, ended_ms = SurveyBuilder(), 0, 0
    for done, record in enumerate(read_dump_at(str(place), storage_options)):
        match record:
            case DumpHeader():
                builder, began_ms = SurveyBuilder(record.ledgers_path), record.began_ms
            case Node():
                builder.take(record)
            case DumpEnd():
                ended_ms = record.ended_ms
            case PartDone() | SchemaAnswer():
                pass
            case _:
                builder.answer(record)
        if done % (4 * EVERY) == 0:
            progress("reading the dump", done, None)
    return builder.survey(str(place), ended_ms, began_ms)
