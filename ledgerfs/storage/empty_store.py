"""A living cluster, or disks of bookies, where a bucket is expected: a store without objects, whose dialect finds ledgers itself."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NoReturn

from ledgerfs.errors import BucketNotFoundError, LedgerfsError, ObjectNotFoundError, UnsupportedWriteError
from ledgerfs.storage.disks.bookie_disks import BookieDisks
from ledgerfs.storage.object_writes import UnfinishedUpload
from ledgerfs.storage.objects import ObjectHead, ObjectStat, ReadRequest
from ledgerfs.storage.traffic import Traffic
from ledgerfs.storage.zookeeper.living_cluster import LivingCluster

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ledgerfs.formats.buffers import Buffer


class EmptyStore:
    """`RawStore` of a place that is no bucket: it lists nothing, and whatever is asked of it by key is not there."""

    __slots__ = ("_place", "traffic")

    def __init__(self, place: LivingCluster | BookieDisks) -> None:
        self._place = place
        self.traffic = Traffic()

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._place,))

    @property
    def cluster(self) -> LivingCluster | None:
        """The living cluster, if it is one."""
        return self._place if isinstance(self._place, LivingCluster) else None

    @property
    def disks(self) -> BookieDisks | None:
        """The disks of bookies, if it is these."""
        return self._place if isinstance(self._place, BookieDisks) else None

    @property
    def url(self) -> str:
        """The place's URL."""
        return self._place.url

    @property
    def is_remote(self) -> bool:
        """Whether bookies are asked over a network."""
        return self.cluster is not None

    @property
    def writes(self) -> "RefusedWrites":
        """A write side that refuses all."""
        return RefusedWrites(self.url)

    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:  # noqa: ARG002
        """Yield nothing, once the servers of a cluster have answered; raises `BucketNotFoundError` and `StoreUnreachableError`."""
        if self.cluster is not None:
            try:
                self.cluster.nodes.children("/")
            except ObjectNotFoundError as error:
                reason = "these servers have no such path, below which a cluster would be"
                raise BucketNotFoundError(reason, key=self.url) from error
        return iter(())

    def list_folder(self, folder: str) -> Iterator[list[ObjectStat]]:  # noqa: ARG002
        """Yield nothing."""
        return iter(())

    def head(self, key: str) -> ObjectHead:
        """Raise `ObjectNotFoundError`."""
        raise _no_object(key)

    def read(self, request: ReadRequest) -> bytes:
        """Raise `ObjectNotFoundError`."""
        raise _no_object(request.key)

    def start(self, request: ReadRequest) -> "Future[Buffer]":
        """Raise `ObjectNotFoundError`."""
        raise _no_object(request.key)

    def send(self, request: ReadRequest, descriptor: int) -> None:  # noqa: ARG002
        """Raise `ObjectNotFoundError`."""
        raise _no_object(request.key)

    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        """Yield `ObjectNotFoundError` for each."""
        return (_no_object(request.key) for request in requests)


def _no_object(key: str) -> ObjectNotFoundError:
    return ObjectNotFoundError("there are no objects here", key=key)


class RefusedWrites:
    """`WritableStore` that writes nothing: changing a cluster, or disks, is not for readers of it."""

    __slots__ = ("_url",)

    smallest_part = 1
    most_parts = 1
    keeps_metadata = False
    can_set_metadata = False

    def __init__(self, url: str) -> None:
        self._url = url

    def make_folder(self) -> None:
        """Refuse."""
        self._refuse()

    def begin_upload(self, key: str, metadata: Mapping[str, str], part_size: int) -> NoReturn:  # noqa: ARG002
        """Refuse."""
        self._refuse()

    def put(self, key: str, data: bytes, metadata: Mapping[str, str]) -> NoReturn:  # noqa: ARG002
        """Refuse."""
        self._refuse()

    def delete(self, key: str) -> None:  # noqa: ARG002
        """Refuse."""
        self._refuse()

    def set_metadata(self, stat: ObjectStat, metadata: Mapping[str, str]) -> None:  # noqa: ARG002
        """Refuse."""
        self._refuse()

    def unfinished_uploads(self) -> Iterator[UnfinishedUpload]:
        """Yield nothing."""
        return iter(())

    def end_unfinished(self, upload: UnfinishedUpload) -> None:  # noqa: ARG002
        """Refuse."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UnsupportedWriteError("nothing is written here: it is no bucket", key=self._url)
