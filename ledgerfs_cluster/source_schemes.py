"""The URL schemes of clusters: ``pulsar+zk`` of living ones, ``bookies`` of their disks (entry points of ``ledgerfs.sources``)."""

from collections.abc import Mapping, Sequence
from typing import Any

from ledgerfs.catalog.source import Source, SourceScheme
from ledgerfs_cluster.disks.disk_files import looks_like_disks
from ledgerfs_cluster.disks.filesystem import url_of

DEFAULT_BOOKIE_RATE = 64 << 20
"""Bytes a second of each bookie for all tasks together: what leaves the disks and networks of most to their producers."""

DEFAULT_BOOKIE_CONNECTIONS = 16
"""Tasks of a query, each of which has a connection to a bookie: a bookie serves hundreds, and this many have work for most sessions."""

_RATE = "bookie_rate"


class ClusterScheme(SourceScheme):
    """``pulsar+zk://host:port,…``."""

    def source(self, fs: Any, root: str) -> Source:  # noqa: ANN401  (fsspec is not typed)
        """Return the cluster of some servers; raises `UnusableUrlError` where none are named."""
        from ledgerfs_cluster.live_source.layout import LiveCluster

        return LiveCluster(fs.cluster(root.rstrip("/")))

    def options_of_task(self, options: Mapping[str, Any], rate: int | None, tasks: int) -> Mapping[str, Any]:
        """Return the options with a task's share of a rate: `DEFAULT_BOOKIE_RATE`, unless the user says what each process may read.

        Bookies serve producers meanwhile, and the process that plans a query does not know how many of its tasks run at once.
        """
        if rate is None and _RATE in options:
            return options
        return {**options, _RATE: (DEFAULT_BOOKIE_RATE if rate is None else rate) / max(1, tasks)}

    def most_tasks(self, connections: int | None) -> int:
        """Return how many tasks have so many connections to a bookie; `DEFAULT_BOOKIE_CONNECTIONS` if none are given."""
        return DEFAULT_BOOKIE_CONNECTIONS if connections is None else connections


class BookiesScheme(SourceScheme):
    """``bookies:///srv/bookie1,/srv/bookie2``."""

    def source(self, fs: Any, root: str) -> Source:  # noqa: ANN401  (fsspec is not typed)
        """Return the disks of some paths; raises `InvalidOptionError`."""
        from ledgerfs_cluster.disks.layout import Disks

        return Disks(fs.disks(root))

    def url_of(self, paths: Sequence[str], options: Mapping[str, Any]) -> str | None:
        """Return the URL of several paths, of one that is a bookie's disk, and of one whose ``metadata`` is named."""
        is_disk = len(paths) > 1 or "metadata" in options or looks_like_disks(paths[0])
        return url_of(tuple(paths)) if is_disk else None
