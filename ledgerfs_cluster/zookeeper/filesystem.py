"""The name of a living cluster in fsspec, ``pulsar+zk://host:port,…[/chroot]``."""

from dataclasses import fields
from typing import Any

from ledgerfs.errors import UnusableUrlError
from ledgerfs_cluster.source_filesystem import SourceFileSystem
from ledgerfs_cluster.zookeeper.living_cluster import LiveReading, LivingCluster
from ledgerfs_cluster.zookeeper.nodes import Nodes
from ledgerfs_cluster.zookeeper.settings import with_login

PROTOCOL = "pulsar+zk"


class ClusterFileSystem(SourceFileSystem):
    """A living cluster.

    Parameters
    ----------
    options
        Those of `LiveReading`: ``read_from``, ``open_end``, ``bookie_rate``, …, and of the session with ZooKeeper, as `Nodes` has them:
        ``username`` and ``password``, ``use_ssl``, ``ca``, …. A login of options comes before that of the environment
        (`ledgerfs_cluster.zookeeper.settings.with_login`).

    """

    protocol = PROTOCOL
    what = "a living cluster"

    def __init__(self, **options: Any) -> None:  # noqa: ANN401
        super().__init__()
        reading = {one.name: options.pop(one.name, None) for one in fields(LiveReading)}
        self._reading = LiveReading(**{name: value for name, value in reading.items() if value is not None})
        self._login = options

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path).rstrip("/")

    def cluster(self, servers: str) -> LivingCluster:
        """Return the cluster of some servers; asks nothing yet. Raises `UnusableUrlError` where none are named."""
        if not servers.partition("/")[0]:
            raise UnusableUrlError("no server is named: pulsar+zk://host:port,host:port", key=f"{PROTOCOL}://{servers}")
        login = with_login(self._login)
        return LivingCluster(servers, Nodes(servers, timeout_s=self._reading.timeout_s, **login), self._reading)
