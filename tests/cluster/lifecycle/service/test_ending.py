"""A service that is to end ends a look that is under way, also one of many minutes, and does nothing more then."""

import time
from pathlib import Path

from ledgerfs_cluster.lifecycle.policy.policy_file import parse_policy_file
from ledgerfs_cluster.lifecycle.service.making import service_of
from ledgerfs_cluster.live_source.newest_entries import NewestEntries
from ledgerfs_cluster.zookeeper.changes import LOCK_PATH
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages


def test_a_look_that_is_under_way_ends_with_the_service(tmp_path: Path) -> None:
    with LiveCluster(tmp_path) as cluster:
        cluster.zookeeper.takes_writes = True
        old = time.time_ns() // 1_000_000 - 3_600_000
        cluster.write_ledgers(TOPIC, [messages(5) for _ in range(3)], closed_ms=old)
        cluster.set_policies(
            "public/default", retention_policies={"retentionTimeInMinutes": 1, "retentionSizeInMB": -1}
        )
        living = ClusterFileSystem().cluster(cluster.url.removeprefix("pulsar+zk://"))
        reported: list[str] = []
        try:
            file = parse_policy_file(b"", Path("policy.toml"))
            with service_of(file, living, NewestEntries(living.reading), None, 0.0) as made:

                def stop(what: str, _: int, __: int | None) -> None:
                    reported.append(what)
                    made.stop()

                made.run(stop, once=True)
                assert made.events.troubles() == []
        finally:
            living.nodes.close()
        # It is asked to end when it tells something first, and tells nothing after that.
        assert len(reported) == 1
        assert LOCK_PATH not in cluster.nodes
        assert not any(path.startswith("/ledgerfs/lifecycle/journal/") for path in cluster.nodes)
