"""Nodes that may not be read are damaged ones to who wants that: what they may name is no orphan, and all else of the cluster is told."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from ledgerfs.errors import AccessDeniedError
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from ledgerfs_cluster.lifecycle.planning.topic_views import ClusterView
from ledgerfs_cluster.lifecycle.policy.policy_file import parse_policy_file
from ledgerfs_cluster.rules.orphans import unnamed_ledgers
from ledgerfs_cluster.snapshot.bundles import Owner
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.surveying import look_again, survey_cluster
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster
from tests.cluster.support.live_clusters import LiveCluster
from tests.cluster.support.sick_clusters import SPACE, make_orphans
from tests.support.each import for_each

HERE, THERE = managed_ledger_of(f"{SPACE}/ledgers"), managed_ledger_of(f"{SPACE}/cursor")
NEVER = ("/managed-ledgers/public/orphans", "/schemas", "/admin/policies", "/namespace/public/orphans", "/ledgers/00")


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path) as made:
        made.bucket().mkdir(parents=True)
        make_orphans(made)
        made.set_policies("public/orphans", retention_policies={"retentionTimeInMinutes": 1, "retentionSizeInMB": 1})
        made.own_bundle("public/orphans", "0x00000000_0x80000000")
        yield made


@pytest.fixture(name="living")
def _living(cluster: LiveCluster) -> Iterator[LivingCluster]:
    living = ClusterFileSystem().cluster(cluster.url.removeprefix("pulsar+zk://"))
    yield living
    living.nodes.close()


def seen(living: LivingCluster) -> Survey:
    return survey_cluster(living, None, lambda *_: None, skips_denied=True)


@contextmanager
def denied(cluster: LiveCluster, path: str) -> Iterator[None]:
    """Let nobody read a node."""
    cluster.zookeeper.no_auth(path)
    yield
    cluster.zookeeper.as_to_all(path)


def orphans(survey: Survey) -> set[tuple[str, bool]]:
    """Return the owners of ledgers that nothing names, and whether each is of a subscription."""
    rows = unnamed_ledgers(survey, time.time_ns() // 1_000_000, 0).rows
    return {(survey.words[int(row["owner"])], bool(row["cursor"] >= 0)) for row in rows}


def test_a_list_that_may_not_be_read_may_name_all_that_is_its_topics(
    cluster: LiveCluster, living: LivingCluster
) -> None:
    before = orphans(seen(living))
    assert {(HERE, False), (THERE, True)} <= before
    cluster.zookeeper.no_auth(managed_ledger_path(HERE))
    found = seen(living)
    assert [one.path for one in found.damaged] == [managed_ledger_path(HERE)]
    assert orphans(found) == before - {(HERE, False)}
    assert set(found.topics) == set(map(managed_ledger_of, (f"{SPACE}/{one}" for one in
        ("cursor", "schema", "flagged", "absent"))))  # fmt: skip
    ids = found.ledgers["ledger_id"].astype(np.int64)
    assert orphans(look_again(living, ids, None, lambda *_: None, skips_denied=True)) == before - {(HERE, False)}


def test_a_subscription_that_may_not_be_read_may_name_its_ledger(cluster: LiveCluster, living: LivingCluster) -> None:
    path = cursor_path(THERE, "gone")
    cluster.zookeeper.set(path, b"")
    cluster.zookeeper.no_auth(path)
    found = seen(living)
    assert [one.path for one in found.damaged] == [path]
    assert (THERE, True) not in orphans(found)


@for_each("path", ["/schemas/public/orphans/schema", "/schemas/public/orphans", "/schemas/public"])
def test_a_locator_or_a_folder_of_them_that_may_not_be_read_may_name_schemas(
    cluster: LiveCluster, living: LivingCluster, path: str
) -> None:
    before = orphans(seen(living))
    (schema,) = {one for one in before if one[0].endswith("orphans/schema") and "persistent" not in one[0]}
    is_new = cluster.zookeeper.get(path) is None
    cluster.zookeeper.set(path, b"")
    with denied(cluster, path):
        found = seen(living)
    assert [one.path for one in found.damaged] == [path]
    assert orphans(found) == before - {schema}
    if is_new:
        cluster.zookeeper.delete(path)


@for_each("path", ["/admin/policies/public/orphans", "/admin/policies/public"])
def test_policies_that_may_not_be_read_are_not_known(cluster: LiveCluster, living: LivingCluster, path: str) -> None:
    with denied(cluster, path):
        found = seen(living)
    assert [one.path for one in found.damaged] == [path]
    view = ClusterView(found, parse_policy_file(b"", Path("policy.toml"))).topic(THERE)
    assert view is not None
    assert not view.are_policies_known


def test_ledgers_and_owners_that_may_not_be_read_are_there(cluster: LiveCluster, living: LivingCluster) -> None:
    before = seen(living)
    ledger_id = int(before.listed["ledger_id"][0])
    bundle = "/namespace/public/orphans/0x00000000_0x80000000"
    for path in (ledger_path(ledger_id), bundle):
        cluster.zookeeper.no_auth(path)
    found = seen(living)
    assert {one.path for one in found.damaged} == {ledger_path(ledger_id), bundle}
    assert found.damaged_ledgers == {ledger_id}
    owners = [found.owners.of(one) for one in before.topics]
    assert Owner.SOME in owners
    assert owners == [before.owners.of(one) for one in before.topics]
    again = look_again(living, np.array([ledger_id], np.int64), None, lambda *_: None, skips_denied=True)
    assert again.damaged_ledgers == {ledger_id}


@for_each("path", NEVER)
def test_folders_without_which_nobody_knows_what_there_is_are_errors(
    cluster: LiveCluster, living: LivingCluster, path: str
) -> None:
    assert cluster.zookeeper.get(path) is not None
    with denied(cluster, path), pytest.raises(AccessDeniedError) as raised:
        seen(living)
    assert raised.value.key == path


def test_who_does_not_want_to_go_on_without_a_node_gets_an_error(cluster: LiveCluster, living: LivingCluster) -> None:
    path = managed_ledger_path(HERE)
    cluster.zookeeper.no_auth(path)
    for look in (
        lambda: survey_cluster(living, None, lambda *_: None),
        lambda: look_again(living, np.empty(0, np.int64), None, lambda *_: None),
    ):
        with pytest.raises(AccessDeniedError) as raised:
            look()
        assert raised.value.key == path
