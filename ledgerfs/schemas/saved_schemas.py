"""Schemas saved as objects beside a bucket: in its own folder, or at any other place.

Each version is a separate object, which is never changed or removed, so concurrent writers lose nothing, and an interrupted one leaves
whole versions. Every call lists the objects again; an unreadable object is an error, not "no schema".
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from ledgerfs.errors import (
    AccessDeniedError,
    CorruptSchemaFileError,
    InvalidNameError,
    LedgerfsError,
    ObjectExistsError,
)
from ledgerfs.formats.schemas.saved_schema import (
    FOLDER,
    MAX_SAVED_BYTES,
    dump_schema,
    is_saved_name,
    parse_schema,
    saved_name,
    topic_folder,
)
from ledgerfs.formats.schemas.schema_info import SchemaVersion
from ledgerfs.formats.topic_names import schema_owner
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest
from ledgerfs.storage.opening import open_store
from ledgerfs.storage.url_filesystem import filesystem_of


class SchemaStore(Protocol):
    """A source of schemas. Caches nothing: each call reads the source. May be used from several threads.

    Accepts the names of topics that `formats.topic_names.managed_ledger_of` accepts; partitions have the schemas of the whole topic.
    """

    @property
    def source(self) -> str:
        """The source's name, for people, without credentials."""
        ...

    def versions(self, topic: str) -> tuple[SchemaVersion, ...]:
        """Return all known versions of a topic, ascending by number, then by time; empty without any.

        A number that was used again after a forced deletion is there more than once.
        """
        ...

    def version(self, topic: str, number: int) -> tuple[SchemaVersion, ...]:
        """Return the known versions of one number, ascending by time; empty without any."""
        ...


class SavedSchemas:
    """`SchemaStore` of saved schemas, which also adds more.

    Parameters
    ----------
    store
        The store itself, without a cache.
    folder
        Their folder in it, with ``/`` at its end: that of a bucket, or an empty string.

    """

    __slots__ = ("_folder", "_store")

    def __init__(self, store: RawStore, folder: str = FOLDER) -> None:
        self._store = store
        self._folder = folder

    @property
    def source(self) -> str:
        """The URL of the store, and the folder in it."""
        return f"{self._store.url}/{self._folder}".rstrip("/")

    def versions(self, topic: str) -> tuple[SchemaVersion, ...]:
        """Return all saved versions of a topic.

        Raises `CorruptSchemaFileError`, `UnsupportedFormatError` (a newer ledgerfs saved it), and the errors of the store.
        """
        folder = self._folder + topic_folder(schema_owner(topic))
        return ordered_versions(version for _, version in self._read(self._objects(folder)))

    def version(self, topic: str, number: int) -> tuple[SchemaVersion, ...]:
        """Return the saved versions of one number; raises as `versions`."""
        return tuple(one for one in self.versions(topic) if one.version == number)

    def all_versions(self) -> dict[str, tuple[SchemaVersion, ...]]:
        """Return the saved versions of each topic, by the topics' names, sorted; raises as `versions`."""
        by_topic: dict[str, list[SchemaVersion]] = {}
        for name, version in self._read(self._objects(self._folder)):
            by_topic.setdefault(name, []).append(version)
        return {name: ordered_versions(by_topic[name]) for name in sorted(by_topic)}

    def is_empty(self) -> bool:
        """Whether nothing was ever saved here; costs a part of a listing."""
        return next(self._objects(self._folder), None) is None

    def add(self, topic: str, versions: Iterable[SchemaVersion]) -> int:
        """Save those versions of a topic that are not saved yet, and return their number. Reads back all saved ones.

        Raises as `versions`, `InvalidOptionError` for a version that could not be read again, and the errors of writing, after which
        earlier versions may be saved.
        """
        owner = schema_owner(topic)
        folder = self._folder + topic_folder(owner)
        there = {stat.key for stat in self._objects(folder)}
        written = 0
        for version in versions:
            key, data = folder + saved_name(owner.topic, version), dump_schema(owner.topic, version)
            if key not in there:
                self._put(key, data)
                written += 1
        self.versions(topic)
        return written

    def require_place(self) -> None:
        """Raise `BucketNotFoundError` if the bucket, or the opened folder, does not exist."""
        next(iter(self._store.list_pages()), None)

    def make_place(self) -> None:
        """Make the opened folder, if the store has folders."""
        self._store.writes.make_folder()

    def _put(self, key: str, data: bytes) -> None:
        try:
            self._store.writes.put(key, data, {})
        except ObjectExistsError:
            # Another writer has just saved the same version. It is read back with the others.
            return

    def _objects(self, folder: str) -> Iterator[ObjectStat]:
        """Yield the saved schemas below a folder, without hidden files."""
        # A store whose root is the folder lists it page by page, without those below it.
        pages = self._store.list_folder(folder) if folder else self._pages_of_root()
        for page in pages:
            for stat in page:
                name = stat.key.rpartition("/")[2]
                if stat.refused:
                    raise AccessDeniedError(
                        f"cannot read this folder, which may contain schemas: {stat.refused}", key=stat.key
                    )
                if name.startswith(".") or not name:
                    continue
                if not is_saved_name(name):
                    reason = (
                        f"was not written by ledgerfs: {self.source} is not a folder of saved schemas, or this object "
                        "does not belong there"
                    )
                    raise CorruptSchemaFileError(reason, key=stat.key)
                yield stat

    def _pages_of_root(self) -> Iterator[list[ObjectStat]]:
        for page in self._store.list_pages():
            for stat in page:
                if stat.key.endswith("/"):
                    yield from self._store.list_folder(stat.key)
                else:
                    yield [stat]

    def _read(self, stats: Iterable[ObjectStat]) -> list[tuple[str, SchemaVersion]]:
        """Return the topic and the version in each object."""
        listed = list(stats)
        for stat in listed:
            if stat.size > MAX_SAVED_BYTES:
                raise CorruptSchemaFileError(
                    f"has {stat.size} bytes; a schema has at most {MAX_SAVED_BYTES}", key=stat.key
                )
        outcomes = self._store.read_many(ReadRequest(stat.key, 0, stat.size, stat.version) for stat in listed)
        return [self._parsed(stat.key, outcome) for stat, outcome in zip(listed, outcomes, strict=True)]

    def _parsed(self, key: str, outcome: bytes | LedgerfsError) -> tuple[str, SchemaVersion]:
        if isinstance(outcome, LedgerfsError):
            raise outcome
        topic, version = parse_schema(outcome, key)
        try:
            folder = topic_folder(schema_owner(topic))
        except InvalidNameError:
            folder = ""
        if key != f"{self._folder}{folder}{saved_name(topic, version)}":
            raise CorruptSchemaFileError(
                f"is a schema of {topic}, whose schemas are in another folder: the object was moved", key=key
            )
        return topic, version


def saved_schemas_at(url: str, storage_options: Mapping[str, Any] | None = None) -> SavedSchemas:
    """Return the schemas saved at a separate URL (``schemas save --to``); raises as `filesystem_of`."""
    return SavedSchemas(open_store(*filesystem_of(url, storage_options or {})), "")


def ordered_versions(versions: Iterable[SchemaVersion]) -> tuple[SchemaVersion, ...]:
    """Return versions in the order of `ledgerfs.schemas.saved_schemas.SchemaStore`: by number, then by time."""
    return tuple(sorted(versions, key=lambda one: (one.version, one.timestamp_ms or 0, one.saved_ms or 0)))
