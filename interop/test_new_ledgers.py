"""Ledgers that Pulsar never had, written by ledgerfs under new ids: Pulsar's reader finds the same messages in them as we do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.cluster import Cluster
from interop.comparison import differences, in_the_same_words, read_with_ledgerfs
from interop.java_client import JavaClient, Lines
from interop.managed_ledgers import introduce
from interop.new_ledgers import (
    IMPORTED,
    IMPORTS,
    ODD,
    OWN_COLUMNS,
    UNBATCHED,
    UNBATCHINGS,
    Import,
    NewTopic,
    write_imports,
    write_unbatched,
)
from interop.odd_rows import odd_lines
from interop.processes import Processes
from interop.rewrite import verify
from interop.s3_server import BUCKET, S3Server
from interop.stages import stage
from interop.workload import NAMESPACE, Workload
from ledgerfs import open_bucket

OF_THE_PLACE = ("ledger_id", "entry_id", "batch_index")
OF_THE_BROKER = ("broker_index", "broker_time")
OF_THE_SENDING = ("publish_time", "producer_name", "sequence_id", "schema_version")
"""What an import makes up where the rows do not have it."""

IMPORTED_TOPICS = [one.topic for one in IMPORTS]
UNBATCHED_TOPICS = [topic for one in UNBATCHINGS for topic in one.topics]
TOPICS = [*IMPORTED_TOPICS, *UNBATCHED_TOPICS]


@pytest.fixture(scope="module")
def written(
    folder: Path, processes: Processes, original: S3Server, cluster: Cluster, workload: Workload, truth: Lines
) -> Iterator[S3Server]:
    """A second server, with new ledgers only; their ids are above all that BookKeeper has given away so far."""
    server = S3Server("s3-new", folder / "s3-new", processes).start()
    used = cluster.bookkeeper_ledgers().union(*workload.ledgers.values())
    with stage("ledgerfs export, import"):
        write_imports(original, server, folder / "rows", max(used) + 1000)
    with stage("ledgerfs offload --unbatch"):
        write_unbatched(original, server, max(used) + 1100)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def ours(written: S3Server, java: JavaClient) -> Lines:
    """What ledgerfs reads of each topic, by the name that the broker has for it."""
    with stage("ledgerfs reads"):
        found = read_with_ledgerfs(written, java.keys)
    assert found.keys() == {topic.written for topic in TOPICS}
    return {topic.served: found[topic.written] for topic in TOPICS}


@pytest.fixture(scope="module")
def theirs(written: S3Server, original: S3Server, cluster: Cluster, java: JavaClient) -> Lines:
    """What Pulsar's reader returns of each topic, of which the broker knows where its ledgers are, and nothing else."""
    bucket = open_bucket(f"s3://{BUCKET}", storage_options=written.options)
    ledgers = {topic.served: [ledger.ref for ledger in bucket.topic(topic.written).ledgers] for topic in TOPICS}
    with stage("introduce ledgers"):
        for namespace in (IMPORTED, UNBATCHED):
            cluster.admin.make_namespace(namespace)
        introduce(cluster.zookeeper, ledgers, written)
    original.stop()
    try:
        with stage("restart the broker"):
            cluster.restart_broker(written)
        with stage("Pulsar's reader"):
            return in_the_same_words(java.read(list(ledgers)))
    finally:
        original.start()


@pytest.fixture(scope="module")
def originals(truth: Lines) -> Lines:
    """What the new topics are to have."""
    return truth | {f"persistent://{NAMESPACE}/{ODD}": odd_lines()}


each_import = pytest.mark.parametrize(
    "one", IMPORTS, ids=lambda one: f"{one.export.source}-{one.export.kind}-{one.codec}-{one.batch}"
)
each_unbatched = pytest.mark.parametrize("topic", UNBATCHED_TOPICS, ids=lambda topic: f"{topic.source}-{topic.codec}")


def test_the_new_bucket_is_whole(written: S3Server) -> None:
    with stage("ledgerfs verify"):
        verify(written)


def test_pulsars_reader_returns_what_ledgerfs_returns(ours: Lines, theirs: Lines) -> None:
    assert differences(theirs, ours) == []


@each_import
def test_imported_messages_are_the_original_ones(one: Import, theirs: Lines, originals: Lines) -> None:
    """The broker has not seen them: so it tells no index and no time, wherever it told one before."""
    new = theirs[one.topic.served]
    made_up = OF_THE_SENDING if one.export.columns == OWN_COLUMNS else ()
    expected = _moved(originals[one.topic.original], new, (*OF_THE_PLACE, *OF_THE_BROKER, *made_up))
    assert differences({one.topic.served: new}, {one.topic.served: expected}) == []
    assert {row[name] for row in new for name in OF_THE_BROKER} == {None}
    if made_up:
        assert [row["sequence_id"] for row in new] == list(range(len(new)))
        assert {(row["producer_name"], row["schema_version"]) for row in new} == {("ledgerfs", None)}


@each_unbatched
def test_unbatched_messages_are_the_original_ones(topic: NewTopic, theirs: Lines, truth: Lines) -> None:
    """Also their index and time in the old broker are."""
    new = theirs[topic.served]
    expected = _moved(truth[topic.original], new, OF_THE_PLACE)
    assert differences({topic.served: new}, {topic.served: expected}) == []


def _moved(
    rows: list[dict[str, object]], new: list[dict[str, object]], fields: tuple[str, ...]
) -> list[dict[str, object]]:
    """Return rows with some fields as the new ones have them; rows for which there is no new one, as they are."""
    places = [{name: row[name] for name in fields} for row in new[: len(rows)]]
    return [row | place for row, place in zip(rows, places + [{}] * (len(rows) - len(places)), strict=True)]
