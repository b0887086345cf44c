"""Meetings without threads: a store that lets somebody else act in the middle of an operation, and tells the model what becomes of objects.

Two imports at once are: one that is held after its listing, another one from front to end, and then the rest of the first.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.pulsar_blob.index import OffloadIndex, parse_index
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey, parse_ledger_key
from ledgerfs.formats.schemas.saved_schema import is_saved_schema, parse_schema
from ledgerfs.formats.schemas.schema_info import SchemaVersion
from ledgerfs.storage.objects import ObjectHead, ObjectStat, ReadRequest


class Witness(Protocol):
    """Who is told of what a store is asked for."""

    def met(self) -> None:
        """An operation has come to a point where somebody else may act.

        These are: before and after a listing; before an object is asked for; before indexes are read; before a data object is complete;
        before and after an index or a schema is put; before and after an object is deleted; in folders before data is read.
        """

    def refusal_of(self, name: str, *, is_head: bool = False) -> LedgerfsError | None:
        """Return the error of a store that refuses to list a folder, or to show an object; None if it does not."""

    def published(self, key: LedgerKey, index: OffloadIndex) -> None:
        """An index was put."""

    def schema_saved(self, schema: SchemaVersion) -> None:
        """A schema was saved."""

    def chosen(self, schema_version: int) -> None:
        """An import has chosen the number of its schema."""

    def unpublished(self, key: LedgerKey) -> None:
        """An index was deleted."""

    def data_deleted(self, key: LedgerKey) -> None:
        """A data object was deleted."""


class MeetingStore:
    """`RawStore` that passes everything on to another one, unless it is to refuse that, and tells of it."""

    def __init__(self, store: Any, witness: Witness) -> None:
        self._store = store
        self._witness = witness

    @property
    def witness(self) -> Witness:
        return self._witness

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @property
    def writes(self) -> "_MeetingWrites":
        return _MeetingWrites(self._store.writes, self._witness)

    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        self._witness.met()
        self._require("")
        pages = list(self._store.list_pages(prefix))
        self._witness.met()
        return iter(pages)

    def list_folder(self, folder: str) -> Iterator[list[ObjectStat]]:
        self._witness.met()
        if (refusal := self._witness.refusal_of(folder)) is not None:
            return iter([[ObjectStat(folder, 0, 0, "", refusal.reason)]])
        pages = list(self._store.list_folder(folder))
        self._witness.met()
        return iter(pages)

    def head(self, key: str) -> ObjectHead:
        self._witness.met()
        self._require(key, is_head=True)
        found: ObjectHead = self._store.head(key)
        return found

    def read(self, request: ReadRequest) -> bytes:
        self._met_read()
        self._require(request.key)
        data: bytes = self._store.read(request)
        return data

    def start(self, request: ReadRequest) -> Any:
        self._met_read()
        if (refusal := self._witness.refusal_of(request.key)) is not None:
            refused: Future[bytes] = Future()
            refused.set_exception(refusal)
            return refused
        return self._store.start(request)

    def send(self, request: ReadRequest, descriptor: int) -> None:
        self._met_read()
        self._require(request.key)
        self._store.send(request, descriptor)

    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[Any]:
        self._witness.met()
        asked = list(requests)
        refusals = [self._witness.refusal_of(request.key) for request in asked]
        rest = [request for request, refusal in zip(asked, refusals, strict=True) if refusal is None]
        answers = self._store.read_many(rest)
        return (refusal or next(answers) for refusal in refusals)

    def _require(self, name: str, *, is_head: bool = False) -> None:
        """Raise the error of a store that refuses a request."""
        refusal = self._witness.refusal_of(name, is_head=is_head)
        if refusal is not None:
            raise refusal

    def _met_read(self) -> None:
        # Reads of a remote store begin inside the cache that all of this process share: nobody else may read meanwhile. Threads that read
        # ahead do it when they like.
        if not self._store.is_remote and threading.current_thread() is threading.main_thread():
            self._witness.met()


@dataclass(frozen=True, slots=True)
class _MeetingWrites:
    writes: Any
    witness: Witness

    def __getattr__(self, name: str) -> Any:
        return getattr(self.writes, name)

    def begin_upload(self, key: str, metadata: Mapping[str, str], part_size: int) -> "_MeetingUpload":
        return _MeetingUpload(self.writes.begin_upload(key, metadata, part_size), self.witness)

    def put(self, key: str, data: bytes, metadata: Mapping[str, str]) -> ObjectStat:
        self.witness.met()
        stat: ObjectStat = self.writes.put(key, data, metadata)
        if is_saved_schema(key):
            self.witness.schema_saved(parse_schema(data, key)[1])
        else:
            parsed = parse_ledger_key(key)
            assert parsed is not None
            assert parsed.is_index
            self.witness.published(parsed, parse_index(data, key=key))
        self.witness.met()
        return stat

    def delete(self, key: str) -> None:
        self.witness.met()
        self.writes.delete(key)
        parsed = parse_ledger_key(key)
        assert parsed is not None
        (self.witness.unpublished if parsed.is_index else self.witness.data_deleted)(parsed)
        self.witness.met()


@dataclass(frozen=True, slots=True)
class _MeetingUpload:
    upload: Any
    witness: Witness

    def __getattr__(self, name: str) -> Any:
        return getattr(self.upload, name)

    def complete(self) -> ObjectStat:
        self.witness.met()
        stat: ObjectStat = self.upload.complete()
        return stat


@dataclass(slots=True)
class Meeting:
    """Somebody else's operation, done when one comes to its n-th point, counted from 0."""

    number: int
    act: Callable[[], None]

    def met(self) -> None:
        self.number -= 1
        if self.number == -1:
            self.act()
