"""Definitions of schemas in dumps: every version that BookKeeper has, each once, and why where it has none."""

from pathlib import Path

import pytest

from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs_cluster.formats.stored_schema import parse_stored_schema
from ledgerfs_cluster.snapshot.answers import SchemaAnswer
from ledgerfs_cluster.snapshot.dump_file import DumpWriter, read_dump
from ledgerfs_cluster.snapshot.surveying import survey_dump
from tests.cluster.support.live_clusters import LiveCluster, messages
from tests.cluster.support.living_clusters import dumped, same, surveyed
from tests.cluster.support.patience import patience_with_bookies
from tests.support.invoked import run

ORDERS, ODD = "public/default/orders", "public/default/a b"
KEYS = [("public/default/a+b", 0), *(("public/default/orders", number) for number in range(3))]
DEFINITIONS = [b'{"type":"record","name":"r%d","fields":[]}' % number for number in range(2)]


@pytest.fixture(autouse=True)
def _schemas(cluster: LiveCluster) -> None:
    cluster.write_ledger(ORDERS, messages(5))
    for definition in DEFINITIONS:
        cluster.add_schema(ORDERS, SchemaInfo("AVRO", definition, {"a": "b"}))
    cluster.add_schema(ORDERS, SchemaInfo("NONE"), is_deletion=True)
    cluster.add_schema(ODD, SchemaInfo("STRING"))


def schemas_in(path: Path) -> dict[tuple[str, int], SchemaAnswer]:
    found = [record for record in read_dump(path) if isinstance(record, SchemaAnswer)]
    assert len({(one.name, one.version) for one in found}) == len(found)
    return {(one.name, one.version): one for one in found}


def test_a_dump_has_every_version_of_every_schema(cluster: LiveCluster, tmp_path: Path) -> None:
    done = dumped(cluster, tmp_path / "x")
    found = schemas_in(tmp_path / "x")
    assert sorted(found) == KEYS
    assert done.troubles == []
    reported = [parse_stored_schema(found[key].payload or b"", key="x", version=key[1]) for key in KEYS]
    assert [one.schema.type for one in reported] == ["STRING", "AVRO", "AVRO", "NONE"]
    assert [one.schema.data for one in reported[1:3]] == DEFINITIONS
    assert [one.is_deletion for one in reported] == [False, False, False, True]
    stored = cluster.written[cluster.schema_ledgers(ORDERS)[0]].payloads[0]
    assert found[ORDERS, 0].payload == stored


def test_what_no_bookie_gives_is_reported_and_asked_for_once(cluster: LiveCluster, tmp_path: Path) -> None:
    lost, gone, damaged = cluster.schema_ledgers(ORDERS)
    cluster.delete_from_bookkeeper(gone, flag=False)
    cluster.zookeeper.set(ledger_path(damaged), b"nonsense")
    cluster.collect(lost)
    done = dumped(cluster, tmp_path / "x")
    found = schemas_in(tmp_path / "x")
    assert [found[key].trouble is None for key in KEYS] == [True, False, False, False]
    assert all(found[key].payload is None for key in KEYS[1:])
    assert len(done.troubles) == 3
    assert f"ledger {gone} is not in BookKeeper" in (found[ORDERS, 1].trouble or "")
    assert f"schema version 0 of {ORDERS}" in (found[ORDERS, 0].trouble or "")
    reported = run("cluster", "dump", cluster.url, str(tmp_path / "y")).stderr.decode()
    assert f"unknown: schema version 1 of {ORDERS}: {ledger_path(gone)}: ledger {gone} is not in BookKeeper" in reported


def test_silent_bookies_are_reported_of_as_of_each_schema(cluster: LiveCluster, tmp_path: Path) -> None:
    with patience_with_bookies() as patience:
        patience.shorten(*cluster.bookies)
        for one in cluster.bookies:
            one.is_silent = True
        done = dumped(cluster, tmp_path / "x")
    found = schemas_in(tmp_path / "x")
    assert sorted(found) == KEYS
    assert all(one.payload is None and one.trouble for one in found.values())
    assert len(done.troubles) == len(KEYS) + 1


def test_without_bookies_there_are_none(cluster: LiveCluster, tmp_path: Path) -> None:
    done = dumped(cluster, tmp_path / "x", bookies=False)
    assert done.troubles == []
    assert schemas_in(tmp_path / "x") == {}


def test_surveys_neither_ask_for_schemas_nor_keep_them(cluster: LiveCluster, tmp_path: Path) -> None:
    """Of a dump, with what is wrong with its schemas, they are those of one without any, as older ones are."""
    cluster.collect(cluster.schema_ledgers(ORDERS)[0])
    dumped(cluster, tmp_path / "x")
    writer = DumpWriter((tmp_path / "old").open("wb"))
    for record in read_dump(tmp_path / "x"):
        if not isinstance(record, SchemaAnswer):
            writer.write(record)
    writer.flush()
    of_old = survey_dump(tmp_path / "old", lambda *_: None)
    same(survey_dump(tmp_path / "x", lambda *_: None), of_old)
    for bookie in cluster.bookies:
        bookie.asked.clear()
    same(surveyed(cluster), of_old)
    asked = {read.ledger_id for bookie in cluster.bookies for read in bookie.asked}
    assert asked
    assert not asked & {*cluster.schema_ledgers(ORDERS), *cluster.schema_ledgers(ODD)}
