"""Options of `ledgerfs recover`: what each does, as the new cluster has it afterwards."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.schemas.saved_schemas import saved_schemas_at
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import ManagedLedgerInfo, parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from tests.cluster.cli.recover_clusters import ORDERS, SERVICE, Clusters, lent_clusters
from tests.cluster.support.live_clusters import messages
from tests.cluster.support.transaction_snapshots import parsed_snapshot
from tests.support.entries import frame, metadata
from tests.support.invoked import output, run


@pytest.fixture(name="clusters")
def _clusters(tmp_path: Path) -> Iterator[Clusters]:
    with lent_clusters(tmp_path) as made:
        yield made


def said(clusters: Clusters, command: str, *more: str, code: int = 0, with_dump: bool = False) -> dict[str, Any]:
    """Return what a command says as JSON."""
    line = clusters.arguments("--json")
    line += ("--dump", str(clusters.dump)) if with_dump else () if "--dump" in more else ("--no-dump",)
    line += ("--bucket-name", "tier") if "--bucket-name" not in more else ()
    line += ("--yes",) if command == "run" else ()
    found: dict[str, Any] = json.loads(output("recover", command, *line, *more, code=code))
    return found


def list_of(clusters: Clusters, topic: str = ORDERS) -> ManagedLedgerInfo:
    path = clusters.new.chroot + managed_ledger_path(managed_ledger_of(topic))
    return parse_managed_ledger_info(clusters.new.nodes[path], key=path)


def test_lists_have_the_bucket_as_the_new_brokers_reach_it(clusters: Clusters) -> None:
    clusters.rolled(ORDERS)
    place = ("--driver", "S3", "--region", "eu-west-1", "--endpoint", "http://store:9000", "--bucket-name", "mine")
    said(clusters, "run", *place)
    context = list_of(clusters).ledgers[0].context
    assert context is not None
    assert context.driver == "S3"
    assert dict(context.properties) == {
        "bucket": "mine",
        "managedLedgerOffloadDriver": "S3",
        "serviceEndpoint": "http://store:9000",
        "region": "eu-west-1",
    }


def test_open_transactions_are_hidden_or_not_looked_for(clusters: Clusters) -> None:
    plain, *rest = messages(3)
    cut_off = frame(metadata(transaction_most=7, transaction_least=1), b"never ended")
    clusters.rolled(ORDERS, plain, cut_off, *rest)
    (topic,) = said(clusters, "run", "--service", SERVICE)["topics"]
    assert (topic["state"], topic["remarks"][0][:10]) == ("restored", "1 entries ")
    assert parsed_snapshot(clusters.snapshots[ORDERS]).aborted == [(7, 1)]
    again = ("--as", "public/again/{topic}", "--new-ids")
    assert said(clusters, "run", "--no-transactions", *again)["topics"][0]["remarks"] == []
    assert "it was restored with --no-transactions" in said(clusters, "run", *again, code=1)["topics"][0]["why"]


def test_schemas_are_found_elsewhere_or_left(clusters: Clusters, tmp_path: Path) -> None:
    versions = [clusters.old.add_schema(ORDERS, SchemaInfo(kind)) for kind in ("STRING", "INT32")]
    clusters.rolled(ORDERS, *messages(2, schema_version=b"\\0" * 7 + b"\\1"))
    lost = clusters.old.schema_ledgers("public/default/orders")[0]
    for bookie in clusters.old.bookies:
        bookie.remove_ledger(lost)
    clusters.write_dump()
    why = said(clusters, "plan", with_dump=True, code=1)["topics"][0]["why"]
    assert "some versions of its schema cannot be restored" in why
    assert said(clusters, "plan", "--no-schemas", with_dump=True)["topics"][0]["why"] is None
    (tmp_path / "saved").mkdir()
    saved = saved_schemas_at(f"file://{tmp_path}/saved", {})
    saved.add(ORDERS, versions)
    reported = said(clusters, "run", "--schemas", f"file://{tmp_path}/saved", with_dump=True)
    assert reported["topics"][0]["state"] == "restored"
    assert [one.kind for one in clusters.settings.schemas["public/default/orders"]] == ["STRING", "INT32"]


def test_an_older_dump_is_taken_by_its_name(clusters: Clusters) -> None:
    ledger_id = clusters.rolled(ORDERS)
    run("cluster", "dump", clusters.old.url, "--to", clusters.old.bucket_url())
    clusters.old.add_cursor(ORDERS, "later", (ledger_id, 1))
    run("cluster", "dump", clusters.old.url, "--to", clusters.old.bucket_url())
    (folder,) = clusters.old.bucket().glob("_ledgerfs/dumps/*")
    older, newer = sorted(one.name for one in folder.iterdir())
    place = f"{clusters.old.bucket_url()}/_ledgerfs/dumps/{folder.name}"
    for name, subscriptions in ((older, 0), (newer, 1)):
        found = said(clusters, "plan", "--dump", f"{place}/{name}")
        assert (found["dump"], found["topics"][0]["subscriptions"]) == (f"{place}/{name}", subscriptions)


def test_dumps_of_the_new_cluster_are_left_out_beside_those_of_the_lost_one(clusters: Clusters) -> None:
    clusters.rolled(ORDERS)
    for url in (clusters.old.url, clusters.new.url):
        run("cluster", "dump", url, "--to", clusters.old.bucket_url())
    older = min(clusters.old.bucket().glob("_ledgerfs/dumps/*/*"), key=lambda one: one.name)
    line = clusters.arguments("--bucket-name", "tier", "--json", "--yes")
    reported = json.loads(output("recover", "run", *line))
    assert reported["dump"].endswith(older.name)
    refused = run("recover", "plan", clusters.old.bucket_url(), code=2).stderr.decode()
    assert "the bucket has dumps of several clusters" in refused
    assert older.name in refused
    older.unlink()
    refused = run("recover", "run", *line, code=2).stderr.decode()
    assert "all dumps in the bucket are of the new cluster; pass a dump of the lost cluster" in refused
