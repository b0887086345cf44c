"""What we note of an offload and of its objects is what brokers note: byte for byte, by what golden clusters have."""

import json
from dataclasses import replace
from pathlib import Path

from ledgerfs.layouts.pulsar_blob.new_ledger import completed_user_metadata
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    ManagedLedgerInfo,
    build_managed_ledger_info,
    parse_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_of
from ledgerfs_cluster.offload.offload_driver import (
    FILESYSTEM,
    OffloadDriver,
    driver_of_bucket,
    user_metadata,
)
from ledgerfs_cluster.snapshot.cluster_names import only_cluster
from ledgerfs_cluster.zookeeper.nodes import Nodes
from tests.cluster.support.golden_nodes import GoldenNodes
from tests.cluster.support.living_clusters import PATIENCE_S
from tests.cluster.support.zookeeper import ZooKeeperServer
from tests.support.each import for_each


def lists_of(nodes: GoldenNodes) -> list[ManagedLedgerInfo]:
    return [
        parse_managed_ledger_info(data, key=path)
        for path, data in nodes.nodes.items()
        if managed_ledger_of(path) is not None
    ]


def written_anew(info: ManagedLedgerInfo, driver: OffloadDriver) -> bytes:
    ledgers = [
        one if one.context is None else replace(one, context=replace(one.context, driver=driver.name, properties=driver.properties))
        for one in info.ledgers
    ]  # fmt: skip
    return build_managed_ledger_info(replace(info, ledgers=tuple(ledgers)))


def compare(nodes: GoldenNodes, made: dict[str, OffloadDriver]) -> int:
    """Write all contexts with the driver that is made for their endpoint, and compare the bytes; return how many there are."""
    count = 0
    for info in lists_of(nodes):
        contexts = [one.context for one in info.ledgers if one.context is not None]
        if contexts:
            driver = made[contexts[0].get("serviceEndpoint") or ""]
            assert written_anew(info, driver) == build_managed_ledger_info(info)
            count += len(contexts)
    return count


def test_what_golden_brokers_noted_of_buckets(golden: Path, golden_typed: Path) -> None:
    for nodes, least in (
        (GoldenNodes.of(golden), 104),
        (GoldenNodes.of(golden_typed), 231),
        (GoldenNodes.of_dbledger(), 26),
    ):
        endpoints = {
            one.context.get("serviceEndpoint") or ""
            for info in lists_of(nodes)
            for one in info.ledgers
            if one.context is not None
        }
        buckets = {one: driver_of_bucket("AWS-S3", "tier", endpoint=one) for one in endpoints}
        assert compare(nodes, buckets) == least


def test_what_golden_brokers_noted_of_folders(golden_mapfiles: Path) -> None:
    driver = OffloadDriver(FILESYSTEM, (("storageBasePath", "file:///var/pulsar/tier1"),))
    assert compare(GoldenNodes.of(golden_mapfiles), {"": driver}) == 63


@for_each(
    ("driver", "constant"),
    [
        ("aws-s3", "AWS_S3"),
        ("S3", "S3"),
        ("google-cloud-storage", "GOOGLE_CLOUD_STORAGE"),
        ("azureblob", "AZURE_BLOB"),
        ("aliyun-oss", "ALIYUN_OSS"),
    ],
)
def test_each_driver_is_noted_by_its_constant(driver: str, constant: str) -> None:
    found = driver_of_bucket(driver.upper(), "b", "r", "http://e")
    assert found == OffloadDriver(
        driver,
        (
            ("bucket", "b"),
            ("managedLedgerOffloadDriver", constant),
            ("serviceEndpoint", "http://e"),
            ("region", "r"),
        ),
    )


def test_objects_have_the_user_metadata_that_brokers_write(golden: Path) -> None:
    for key, reported in json.loads((golden / "objects.json").read_text()).items():
        theirs = reported["metadata"]
        if "-ledger-" not in key or not theirs:
            continue
        ours = completed_user_metadata(user_metadata("interop"), theirs["managedledgername"])
        of_software = {one for one in theirs if "software" in one}
        assert {**ours, "role": theirs["role"]} == {
            **{one: value for one, value in theirs.items() if one not in of_software},
            **{one: value for one, value in ours.items() if "software" in one},
        }
    assert user_metadata(None) == {"s3managedledgeroffloaderformatversion": "1"}


def test_a_cluster_has_a_name_if_it_knows_of_no_other() -> None:
    with ZooKeeperServer() as server:
        nodes = Nodes(server.address, timeout_s=PATIENCE_S)
        assert only_cluster(nodes) is None
        server.set("/admin/clusters/global", b"{}")
        assert only_cluster(nodes) is None
        server.set("/admin/clusters/here", b"{}")
        assert only_cluster(nodes) == "here"
        server.set("/admin/clusters/there", b"{}")
        assert only_cluster(nodes) is None
        nodes.close()
