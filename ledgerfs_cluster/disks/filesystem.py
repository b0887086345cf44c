"""The fsspec URL of bookies' disks, ``bookies:///srv/bookie1,/srv/bookie2``, and their options, without reading them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.byte_sizes import parse_size
from ledgerfs_cluster.source_filesystem import SourceFileSystem

PROTOCOL = "bookies"
OPEN_ENDS = ("confirmed", "recovered")

_LARGEST = 1 << 30
_SAFE = "/:@!$&'()*+;=~"


@dataclass(frozen=True, slots=True)
class BookieDisks:
    """The disks of one cluster's bookies. They are only read.

    Attributes
    ----------
    paths
        Absolute folders of this machine; each of one bookie, or one above several.
    metadata
        Source of the ledgers' metadata: ``pulsar+zk://host:port,…``, or a file of ``ledgerfs cluster dump``; None without any.
    metadata_options
        Options of the session with ZooKeeper.
    ledgers_path
        BookKeeper's root path, below the servers' chroot; a dump contains its own.
    open_end
        The end of a ledger that is not closed: ``confirmed``, the newest entry that other entries confirm, or ``recovered``, where
        BookKeeper would close it if only these disks were left; then it counts as closed.
    max_entry
        Largest entry, bytes: ``nettyMaxFrameSizeBytes`` of the bookies, if that is more than Pulsar's.

    """

    paths: tuple[str, ...]
    metadata: str | None = None
    metadata_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    ledgers_path: str = "/ledgers"
    open_end: str = "confirmed"
    max_entry: int | None = None

    def __post_init__(self) -> None:
        if self.open_end not in OPEN_ENDS:
            raise InvalidOptionError(f"expected one of {', '.join(OPEN_ENDS)}", key=f"open_end={self.open_end}")
        if self.max_entry is not None and not 0 < self.max_entry <= _LARGEST:
            raise InvalidOptionError(f"expected a size from 1 to {_LARGEST:,} bytes", key=f"max_entry={self.max_entry}")
        if not self.ledgers_path.startswith("/"):
            raise InvalidOptionError(
                "expected an absolute path, such as /ledgers", key=f"ledgers_path={self.ledgers_path}"
            )
        if self.metadata is not None and not (isinstance(self.metadata, str) and self.metadata.strip()):
            raise InvalidOptionError(
                "expected pulsar+zk://host:port, or a dump of the cluster", key=f"metadata={self.metadata}"
            )

    @property
    def url(self) -> str:
        """The disks as a URL, without credentials."""
        return url_of(self.paths)


def url_of(paths: tuple[str, ...]) -> str:
    """Return the URL of some disks: ``bookies:///srv/bookie1,/srv/bookie2``, with commas in paths as ``%2C``."""
    return f"{PROTOCOL}://" + ",".join(quote(path, safe=_SAFE) for path in paths)


def paths_of(rest: str) -> tuple[str, ...]:
    """Return the paths of a URL without its scheme; raises `InvalidOptionError` for none, an empty or relative one, or one named twice."""
    paths = tuple(_path_of(part) for part in rest.split(","))
    for path in paths:
        if not path.startswith("/"):
            raise InvalidOptionError(
                "expected absolute paths of disks, such as bookies:///srv/bookie1,/srv/bookie2", key=path
            )
    if len(set(paths)) < len(paths):
        raise InvalidOptionError("the same disk is listed twice; pass each disk once", key=url_of(paths))
    return paths


def _path_of(part: str) -> str:
    path = unquote(part)
    return path.rstrip("/") or path[:1]


class DisksFileSystem(SourceFileSystem):
    """Disks of bookies.

    Parameters
    ----------
    metadata, ledgers_path, open_end
        See `BookieDisks`.
    max_entry
        The same, in bytes, or a text such as ``"20MiB"``.
    login
        Options of the session with ZooKeeper: ``username`` and ``password``, ``use_ssl``, ``ca``, ….

    """

    protocol = PROTOCOL
    what = "disks of bookies"

    def __init__(
        self,
        metadata: str | None = None,
        ledgers_path: str = "/ledgers",
        open_end: str = "confirmed",
        max_entry: int | str | None = None,
        **login: Any,  # noqa: ANN401
    ) -> None:
        super().__init__()
        self._metadata, self._ledgers_path, self._open_end = metadata, ledgers_path, open_end
        self._max_entry = parse_size(max_entry) if isinstance(max_entry, str) else max_entry
        self._login = login

    def disks(self, rest: str) -> BookieDisks:
        """Return the disks of a URL without its scheme; reads nothing yet. Raises `InvalidOptionError`."""
        return BookieDisks(
            paths_of(rest), self._metadata, self._login, self._ledgers_path, self._open_end, self._max_entry
        )
