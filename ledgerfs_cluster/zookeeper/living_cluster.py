"""A live cluster before any request: its metadata servers, and the options for reading its topics."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ledgerfs.errors import InvalidOptionError
from ledgerfs_cluster.zookeeper.nodes import Nodes

READ_FROM = ("bucket", "bookkeeper")
OPEN_ENDS = ("confirmed", "acknowledged")


@dataclass(frozen=True, slots=True)
class LiveReading:
    """Options for reading a cluster's topics.

    Attributes
    ----------
    read_from
        Source of a ledger that is in both places: ``bucket`` relieves the bookies, ``bookkeeper`` avoids requests to the store.
    open_end
        End of a ledger that is still written: ``confirmed`` at the last add confirmed (LAC), ``acknowledged`` at the newest entry that
        the ack quorum of bookies has.
    ledgers_path
        Root of BookKeeper's metadata, below the servers' chroot.
    timeout_s
        Timeout for an answer of a bookie, s.
    bookie_rate
        Maximum bytes a second that this process reads from each bookie; None for no limit.
    bucket_options
        Options of the filesystems of buckets, such as credentials.
    bucket_urls
        {name of a bucket in the cluster's metadata: URL to read it at}, for buckets that have moved.

    """

    read_from: str = "bucket"
    open_end: str = "confirmed"
    ledgers_path: str = "/ledgers"
    timeout_s: float = 10.0
    bookie_rate: float | None = None
    bucket_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    bucket_urls: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value, known in (("read_from", self.read_from, READ_FROM), ("open_end", self.open_end, OPEN_ENDS)):
            if value not in known:
                raise InvalidOptionError(f"expected one of {', '.join(known)}", key=f"{name}={value}")
        if not self.ledgers_path.startswith("/"):
            raise InvalidOptionError(
                "expected an absolute path, such as /ledgers", key=f"ledgers_path={self.ledgers_path}"
            )
        for name, number in (("timeout_s", self.timeout_s), ("bookie_rate", self.bookie_rate)):
            if number is not None and not number > 0:
                raise InvalidOptionError("expected a number greater than 0", key=f"{name}={number}")
        for name, mapping in (("bucket_options", self.bucket_options), ("bucket_urls", self.bucket_urls)):
            if not isinstance(mapping, Mapping):
                raise InvalidOptionError("expected a mapping", key=name)


@dataclass(frozen=True, slots=True)
class LivingCluster:
    """One cluster; read-only.

    Attributes
    ----------
    servers
        Its ZooKeeper servers, as in the URL: ``host:port,…[/chroot]``.

    """

    servers: str
    nodes: Nodes
    reading: LiveReading

    @property
    def url(self) -> str:
        """The cluster as a URL, without credentials."""
        return f"pulsar+zk://{self.servers}"
