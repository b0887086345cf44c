"""What ledgerfs wrote from Pulsar's objects, served by a real broker that has nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.cluster import Cluster
from interop.comparison import differences, in_the_same_words, read_with_ledgerfs
from interop.java_client import JavaClient, Lines
from interop.processes import Processes
from interop.rewrite import offload, verify
from interop.s3_server import S3Server
from interop.stages import stage
from interop.workload import Workload


@dataclass(frozen=True)
class Rewriting:
    """One way to write every ledger anew."""

    name: str
    options: tuple[str, ...]


REWRITINGS = [
    Rewriting("copy", ()),
    Rewriting("larger-blocks", ("--block-size", "6MiB")),
]
EACH_REWRITING = [pytest.param(one, marks=[pytest.mark.smoke] * (one.name == "copy")) for one in REWRITINGS]


@pytest.fixture(scope="module", params=EACH_REWRITING, ids=lambda rewriting: rewriting.name)
def rewriting(request: pytest.FixtureRequest) -> Rewriting:
    """The tests of one rewriting follow each other."""
    found: Rewriting = request.param
    return found


@pytest.fixture(scope="module")
def rewritten(
    rewriting: Rewriting, folder: Path, processes: Processes, original: S3Server, truth: Lines
) -> Iterator[S3Server]:
    """A second server, with every ledger of the first one written by ledgerfs."""
    name = f"s3-{rewriting.name}"
    server = S3Server(name, folder / name, processes).start()
    with stage("ledgerfs offload"):
        offload(original, server, rewriting.options)
    yield server
    server.stop()


def test_keys_and_user_metadata_are_those_of_pulsar(rewritten: S3Server, original: S3Server) -> None:
    ours, theirs = rewritten.objects(), original.objects()
    assert ours.keys() == theirs.keys()
    for key, metadata in theirs.items():
        for name in ("role", "managedledgername", "s3managedledgeroffloaderformatversion"):
            assert ours[key][name] == metadata[name], key


def test_with_pulsars_block_size_it_is_pulsars_data_object(
    rewriting: Rewriting, rewritten: S3Server, original: S3Server
) -> None:
    data = [key for key in original.objects() if not key.endswith("-index")]
    same = [key for key in data if rewritten.bytes_of(key) == original.bytes_of(key)]
    if rewriting.name == "copy":
        assert same == data
    else:
        assert len(same) < len(data)


def test_the_rewritten_bucket_is_whole(rewritten: S3Server) -> None:
    with stage("ledgerfs verify"):
        verify(rewritten)


def test_ledgerfs_reads_the_same(rewritten: S3Server, java: JavaClient, truth: Lines) -> None:
    with stage("ledgerfs reads"):
        found = read_with_ledgerfs(rewritten, java.keys)
    assert differences(found, truth) == []


def test_a_broker_serves_the_same_from_it(
    rewritten: S3Server, original: S3Server, cluster: Cluster, java: JavaClient, workload: Workload, truth: Lines
) -> None:
    """Nobody else could: BookKeeper has none of these ledgers, the first server is down, and the broker is new."""
    original.stop()
    try:
        with stage("restart the broker"):
            cluster.restart_broker(rewritten)
        with stage("Pulsar's reader"):
            found = in_the_same_words(java.read(workload.topics))
    finally:
        original.start()
    assert differences(found, truth) == []
