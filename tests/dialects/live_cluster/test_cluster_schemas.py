"""Schemas of a living cluster are its own: what typed values are read by, with nothing saved, and what commands show and save."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerfs import Bucket, open_bucket
from ledgerfs.bucket.known_schemas import KnownSchemas
from tests.support.live_clusters import CLOSED, LiveCluster, ledgers_of
from tests.support.typed_golden import TOPICS, WITHOUT_SCHEMA, assert_same_rows, bucket_with_schemas

TOP = "public/typed/"
HIDDEN = ("avro-deleted", "avro-deleted-last")
"""Topics of which the admin API tells less than the cluster has, since a soft deletion hides it."""


@pytest.fixture(scope="module")
def golden(golden_typed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """The typed golden set, all of it hot: the entries of its topics, its locators, and the entries that these name."""
    said = open_bucket(f"file://{golden_typed}/bucket")
    stored = json.loads((golden_typed / "schemas" / "_ledgers.json").read_text())
    with LiveCluster(tmp_path_factory.mktemp("typed-cluster")) as cluster:
        for topic in said.topics():
            for ledger_id, entries in ledgers_of(said, topic.name):
                cluster.write_ledger(topic.name, entries, ledger_id=ledger_id, state=CLOSED)
        for path, one in stored.items():
            cluster.put_schemas(path, base64.b64decode(one["locator"]), {
                tuple(map(int, place.split(":"))): base64.b64decode(data) for place, data in one["entries"].items()
            })  # fmt: skip
        before = cluster.nodes
        yield cluster
        assert cluster.not_reads() == []
        assert cluster.nodes == before


@pytest.fixture(scope="module")
def live(golden: LiveCluster) -> Bucket:
    return open_bucket(golden.url)


@pytest.fixture(scope="module")
def saved(golden_typed: Path, tmp_path_factory: pytest.TempPathFactory) -> Bucket:
    """The same as a bucket, with what the admin API told in the end."""
    return bucket_with_schemas(golden_typed, tmp_path_factory.mktemp("typed") / "bucket")


@pytest.mark.parametrize("version", ["latest", "each"])
@pytest.mark.parametrize("name", sorted(set(TOPICS) - set(WITHOUT_SCHEMA) - set(HIDDEN)))
def test_every_golden_message_is_read_as_by_the_schemas_of_the_admin_api(
    live: Bucket, saved: Bucket, name: str, version: str
) -> None:
    options = {"values": "typed", "on_undecodable": "null", "schema_version": version}
    found, said = (bucket.topic(TOP + name).scan(**options) for bucket in (live, saved))
    assert_same_rows(found.to_table(), said.to_table())
    assert [(one.version, one.count) for one in found.undecodable] == [
        (one.version, one.count) for one in said.undecodable
    ]
