"""The fsspec name of a live cluster, ``pulsar+zk://host:port,…[/chroot]``."""

from typing import Any

from ledgerfs.errors import UnusableUrlError
from ledgerfs_cluster.source_filesystem import SourceFileSystem
from ledgerfs_cluster.zookeeper.living_cluster import LiveReading, LivingCluster
from ledgerfs_cluster.zookeeper.nodes import Nodes
from ledgerfs_cluster.zookeeper.settings import with_login

PROTOCOL = "pulsar+zk"


class ClusterFileSystem(SourceFileSystem):
    """A live cluster.

    Parameters
    ----------
    read_from, open_end, ledgers_path, timeout_s, bookie_rate, bucket_options, bucket_urls
        See `LiveReading`.
    login
        Options of the session with ZooKeeper, as in `Nodes`: ``username`` and ``password``, ``use_ssl``, ``ca``, …. Options take precedence
        over the login in the environment (`ledgerfs_cluster.zookeeper.settings.with_login`).

    """

    protocol = PROTOCOL
    what = "a live cluster"

    def __init__(  # noqa: PLR0917  (fsspec makes copies by position)
        self,
        read_from: str = "bucket",
        open_end: str = "confirmed",
        ledgers_path: str = "/ledgers",
        timeout_s: float = 10.0,
        bookie_rate: float | None = None,
        bucket_options: dict[str, Any] | None = None,
        bucket_urls: dict[str, str] | None = None,
        **login: Any,  # noqa: ANN401
    ) -> None:
        super().__init__()
        self._login = login
        self._reading = LiveReading(
            read_from, open_end, ledgers_path, timeout_s, bookie_rate, bucket_options or {}, bucket_urls or {}
        )

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path).rstrip("/")

    def cluster(self, servers: str) -> LivingCluster:
        """Return the cluster at these servers; sends no request. Raises `UnusableUrlError` if there are none."""
        if not servers.partition("/")[0]:
            raise UnusableUrlError(
                "the servers are missing: pulsar+zk://host:port,host:port", key=f"{PROTOCOL}://{servers}"
            )
        login = with_login(self._login)
        return LivingCluster(servers, Nodes(servers, timeout_s=self._reading.timeout_s, **login), self._reading)
