"""The URL schemes of clusters: ``pulsar+zk`` for live ones, ``bookies`` for their disks (entry points of ``ledgerfs.sources``)."""

from collections.abc import Mapping, Sequence
from typing import Any

from ledgerfs.catalog.source import Source, SourceScheme
from ledgerfs_cluster.disks.disk_files import looks_like_disks
from ledgerfs_cluster.disks.filesystem import url_of

DEFAULT_BOOKIE_RATE = 64 << 20
"""Bytes a second from each bookie for all tasks together: leaves most of its disks and network to producers."""

DEFAULT_BOOKIE_CONNECTIONS = 16
"""Concurrent tasks of a query, one connection each to a bookie: bookies serve hundreds, and this many keep most sessions busy."""

_RATE = "bookie_rate"


class ClusterScheme(SourceScheme):
    """``pulsar+zk://host:port,…``."""

    def source(self, fs: Any, root: str) -> Source:  # noqa: ANN401  (fsspec is not typed)
        """Return the cluster at these servers; raises `UnusableUrlError` if there are none."""
        from ledgerfs_cluster.live_source.layout import LiveCluster

        return LiveCluster(fs.cluster(root.rstrip("/")))

    def options_of_task(self, options: Mapping[str, Any], rate: int | None, tasks: int) -> Mapping[str, Any]:
        """Return the options with a task's share of a rate: of `DEFAULT_BOOKIE_RATE`, unless the user sets a rate for each process.

        Bookies serve producers meanwhile, and the process that plans a query cannot see how many of its tasks run at once.
        """
        if rate is None and _RATE in options:
            return options
        return {**options, _RATE: (DEFAULT_BOOKIE_RATE if rate is None else rate) / max(1, tasks)}

    def most_tasks(self, connections: int | None) -> int:
        """Return how many tasks may connect to a bookie; `DEFAULT_BOOKIE_CONNECTIONS` if not given."""
        return DEFAULT_BOOKIE_CONNECTIONS if connections is None else connections


class BookiesScheme(SourceScheme):
    """``bookies:///srv/bookie1,/srv/bookie2``."""

    def source(self, fs: Any, root: str) -> Source:  # noqa: ANN401  (fsspec is not typed)
        """Return the disks at some paths; raises `InvalidOptionError`."""
        from ledgerfs_cluster.disks.layout import Disks

        return Disks(fs.disks(root))

    def url_of(self, paths: Sequence[str], options: Mapping[str, Any]) -> str | None:
        """Return the URL for several paths, for one that is a bookie's disk, or for one with the option ``metadata``; else None."""
        is_disk = len(paths) > 1 or "metadata" in options or looks_like_disks(paths[0])
        return url_of(tuple(paths)) if is_disk else None
