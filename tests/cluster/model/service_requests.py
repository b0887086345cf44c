"""Requests of a lifecycle service to ZooKeeper, bookies and the store: at any of them somebody else may act, it may die, or a store fail.

One that dies does nothing more, in whichever thread: neither does it clean up, nor say anything.
"""

import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.errors import LedgerfsError, StoreUnreachableError
from ledgerfs.storage.folders.store import LocalStore
from ledgerfs.storage.folders.writes import LocalUpload, LocalWrites
from ledgerfs.storage.objects import ObjectHead
from ledgerfs_cluster.bookies.connection import BookieConnection
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_of
from ledgerfs_cluster.lifecycle.brokers.broker_api import BrokerApi
from ledgerfs_cluster.zookeeper.changes import ClusterLock, Operation
from ledgerfs_cluster.zookeeper.nodes import Nodes


class Kind(Enum):
    """What is asked of whom."""

    ZOOKEEPER = auto()
    COMMIT = auto()
    """Changes ZooKeeper: what it was decided by was read before."""
    LIST = auto()
    """The same, and sets the list of a topic."""
    BOOKIE = auto()
    STORE = auto()
    STORE_WRITE = auto()
    """Makes or deletes an object."""
    BROKER = auto()


ALL = frozenset(Kind)
CHANGES = frozenset({Kind.COMMIT, Kind.LIST, Kind.STORE_WRITE, Kind.BROKER})
LISTS = frozenset({Kind.LIST})

_REQUESTS: list[tuple[Kind, type, tuple[str, ...]]] = [
    (Kind.ZOOKEEPER, Nodes, ("get", "get_many", "children", "children_many")),
    (Kind.ZOOKEEPER, ClusterLock, ("node",)),
    (Kind.BOOKIE, BookieConnection, ("send",)),
    (Kind.BROKER, BrokerApi, ("offload_status", "trim", "offload", "unload")),
    (Kind.STORE, LocalStore, ("list_pages", "head", "read", "start", "read_many")),
    (Kind.STORE, LocalWrites, ("unfinished_uploads",)),
    (Kind.STORE, LocalUpload, ("write",)),
    (Kind.STORE_WRITE, LocalWrites, ("begin_upload", "put", "delete", "end_unfinished")),
    (Kind.STORE_WRITE, LocalUpload, ("complete",)),
]


class Died(BaseException):
    """The process ended here."""


@dataclass(slots=True)
class Requests:
    """What happens at requests: nothing, unless it is told.

    Attributes
    ----------
    act
        Is done by somebody else before request ``at``, counted from 0.
    kinds
        Of which requests these are numbers.
    dies_at
        The number of the request that is never sent, nor any after it.
    fails
        How many requests to the store fail, from request ``at`` on.
    error
        With what they fail: the store is unreachable, or refuses them.
    about
        The managed ledger whose list was to be set last.

    """

    at: int = -1
    kinds: Container[Kind] = ALL
    act: Callable[[], None] | None = None
    dies_at: int = -1
    fails: int = 0
    error: type[LedgerfsError] = StoreUnreachableError
    count: int = 0
    about: str = ""
    is_dead: bool = False
    _others: threading.local = field(default_factory=threading.local)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def met(self, kind: Kind) -> None:
        """Have happen what is to happen before a request."""
        if getattr(self._others, "act", False) or not (kind in self.kinds or self.is_dead):
            return
        is_store = kind in {Kind.STORE, Kind.STORE_WRITE}
        with self._lock:
            number, self.count = self.count, self.count + 1
            self.is_dead = self.is_dead or number == self.dies_at
            fails = is_store and 0 <= self.at <= number and self.fails > 0
            self.fails -= fails
        if self.is_dead:
            raise Died
        if fails:
            raise self.error("the store of a model fails", key="tier")
        if number == self.at and self.act is not None:
            self._others.act = True
            try:
                self.act()
            finally:
                self._others.act = False

    def met_commit(self, operations: Sequence[Operation]) -> None:
        """The same before a commit."""
        lists = [name for one in operations if (name := managed_ledger_of(one.path)) is not None]
        if lists and not getattr(self._others, "act", False):
            self.about = lists[0]
        self.met(Kind.LIST if lists else Kind.COMMIT)


@contextmanager
def met_at(requests: Requests) -> Iterator[None]:
    """Have things happen at the requests that are sent in a block."""
    with pytest.MonkeyPatch.context() as patch:
        for kind, owner, names in _REQUESTS:
            for name in names:
                _patch(patch, owner, name, lambda *_, kind=kind: requests.met(kind))
        _patch(patch, ClusterLock, "commit", requests.met_commit)
        abort = LocalUpload.abort
        patch.setattr(LocalUpload, "abort", lambda self: None if requests.is_dead else abort(self))
        yield


@contextmanager
def watched_store(
    deletes: Callable[[Path, str], None], metadata_of: Callable[[str], Mapping[str, str]]
) -> Iterator[None]:
    """Have each deletion of an object told, right before it; and folders know the user metadata of objects, as other stores do."""
    with pytest.MonkeyPatch.context() as patch:
        delete, head = LocalWrites.delete, LocalStore.head

        def reported(self: LocalWrites, key: str) -> None:
            deletes(Path(self._root), key)
            delete(self, key)

        patch.setattr(LocalWrites, "delete", reported)
        patch.setattr(LocalStore, "head", lambda self, key: ObjectHead(head(self, key).stat, metadata_of(key)))
        yield


def _patch(patch: pytest.MonkeyPatch, owner: type, name: str, met: Callable[..., None]) -> None:
    original = getattr(owner, name)

    def asked(self: object, *args: Any, **options: Any) -> Any:
        met(*args)
        return original(self, *args, **options)

    patch.setattr(owner, name, asked)
