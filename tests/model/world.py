"""Two buckets, those who use them, and what is known to be true: who published which ledger, and who deleted it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.layouts_known import AUTO
from ledgerfs.errors import AccessDeniedError, ArchivedObjectError, LedgerfsError
from ledgerfs.formats.pulsar_blob.index import OffloadIndex
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.formats.schemas.schema_info import SchemaVersion
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.fsspec_impl import LedgerFileSystem
from tests.model.brokers import HOUR, Cluster, Sealed
from tests.model.bucket_model import BucketModel, Content, Copy, Key, Part, Row, State, Written
from tests.model.meetings import Meeting, MeetingStore
from tests.model.places import Place, store_of
from tests.model.schemas import Registry, SavedModel, identity_of, typed
from tests.support.ledgers import CREATED_MS

USERS_IDS = (500, 501, 600, 601)
"""Ledger ids that users choose themselves: two in each bucket, which are no broker's, and not those of the other bucket."""

Options = tuple[tuple[str, Any], ...]
"""Options of scans, as something that can be a key."""

ContentOf = Callable[[LedgerKey, OffloadIndex], Content]
"""What a ledger that an operation publishes holds."""


def key_of(key: LedgerKey) -> Key:
    return key.uuid, key.ledger_id


@dataclass(slots=True)
class Running:
    """An operation under way.

    Attributes
    ----------
    content_of
        What the ledgers hold that it publishes; None for one that publishes none.
    may_delete
        Whether it is there to delete ledgers that are not its own.
    published, removed
        Names of the ledgers that it has published, and deleted.
    schema_version
        The number that it has chosen for the schema of its rows.

    """

    content_of: ContentOf | None
    meeting: Meeting | None
    may_delete: bool
    published: list[Key] = field(default_factory=list)
    removed: list[Key] = field(default_factory=list)
    schema_version: int | None = None


@dataclass(slots=True)
class Actor:
    """Somebody who uses the buckets, with a cache of his own, or one that he shares.

    Attributes
    ----------
    max_age
        Seconds for which a kept catalog is good enough to him.
    is_session
        Whether he keeps a bucket open from one operation to the next, as a long session of Python does; a command opens it anew.
    is_witness
        Whether the store refuses him nothing: he finds what is there.
    seen
        For each bucket the number of the state since which his session may have listed it.
    refused
        The buckets of which the store has refused him something: in this operation, or in his session since its bucket was listed anew.

    """

    world: "World"
    name: str
    cache: Path
    max_age: float = 0
    is_session: bool = False
    is_witness: bool = False
    seen: dict[int, int] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    running: Running | None = None
    _sessions: dict[int, Bucket] = field(default_factory=dict)
    _typed: dict[tuple[int, Options], tuple[Bucket, int, int]] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def bucket(self, number: int, layout: str = AUTO) -> Bucket:
        """Return a bucket as this one has it opened; in a session for all layouts only."""
        if number in self._sessions and layout == AUTO:
            return self._sessions[number]
        bucket = self._opened(number, layout, ())
        if self.is_session and layout == AUTO:
            self._sessions[number] = bucket
        return bucket

    def files(self, number: int, bucket: Bucket | None = None) -> LedgerFileSystem:
        """Return a bucket as files."""
        place = self.world.places[number]
        fs = LedgerFileSystem(place.url, target_options=place.options, skip_instance_cache=True)
        fs.bucket = self.bucket(number) if bucket is None else bucket
        return fs

    def typed_files(self, number: int, options: Options) -> tuple[LedgerFileSystem, int, int]:
        """Return a bucket as files of these options of scans, and the first states of ledgers and schemas that these may tell of.

        A session keeps it, whatever it does with the bucket otherwise.
        """
        model, saved = self.world.models[number], self.world.saved[number]
        known = self._typed.get((number, options))
        if known is None:
            known = self._opened(number, AUTO, options), model.moment, saved.moment
            if self.is_session:
                self._typed[number, options] = known
        bucket, begin, since = known
        return self.files(number, bucket), 0 if self.max_age else begin, since

    def _opened(self, number: int, layout: str, options: Options) -> Bucket:
        store, identity = store_of(self.world.places[number])
        watched = MeetingStore(store, _Watch(self, number))
        return Bucket(watched, str(self.cache), dict(options), self.max_age, identity, layout)

    def may_see(self, number: int, begin: int) -> list[State]:
        """Return the states of which a read may tell that began at state ``begin``, and has ended now."""
        if self.max_age:
            begin = 0
        elif self.is_session:
            begin = self.seen.setdefault(number, begin)
        return list(self.world.models[number].history[begin:])

    def forget(self, number: int) -> None:
        """Note that the session was told to list a bucket anew."""
        self.seen.pop(number, None)
        self.refused.discard(number)

    def has_changed(self, number: int) -> None:
        """Note that the session has just changed a bucket: what it shows from now on is no older than that."""
        self.seen[number] = self.world.models[number].moment

    def met(self) -> None:
        """Come to a point where somebody else may act."""
        if self.running is not None and self.running.meeting is not None:
            self.running.meeting.met()


@dataclass(frozen=True, slots=True)
class _Watch:
    """What the store of an actor tells the world."""

    actor: Actor
    number: int

    def met(self) -> None:
        self.actor.met()

    def refusal_of(self, name: str, *, is_head: bool = False) -> LedgerfsError | None:
        world = self.actor.world
        error = None if self.actor.is_witness else world.refusals[self.number].met(name, is_head=is_head)
        if error is not None:
            self.actor.refused.add(self.number)
        return error

    def published(self, key: LedgerKey, index: OffloadIndex) -> None:
        running = self.actor.running
        assert running is not None
        assert running.content_of is not None, f"{self.actor} publishes {key} while it only reads"
        content = running.content_of(key, index)
        model = self.actor.world.models[self.number]
        self.actor.world.contents[key_of(key)] = content
        running.published.append(key_of(key))
        model.put(key_of(key), Copy(content, index.metadata.last_entry, index.metadata.length))
        self.actor.has_changed(self.number)

    def schema_saved(self, schema: SchemaVersion) -> None:
        self.actor.world.saved[self.number].add(schema)

    def chosen(self, schema_version: int) -> None:
        assert self.actor.running is not None
        self.actor.running.schema_version = schema_version

    def unpublished(self, key: LedgerKey) -> None:
        running, model, name = self.actor.running, self.actor.world.models[self.number], key_of(key)
        assert running is not None
        if name not in model.now:
            return
        is_own = name in running.published and name not in model.acknowledged
        is_lost = not model.now[name].has_data
        assert running.may_delete or is_own or is_lost, f"{self.actor} deletes ledger {key}, which is not its own"
        running.removed.append(name)
        model.remove(name)
        self.actor.has_changed(self.number)

    def data_deleted(self, key: LedgerKey) -> None:
        model = self.actor.world.models[self.number]
        assert key_of(key) not in model.now, f"{self.actor} deletes the data of {key}, and leaves its index"
        model.halves.discard(key_of(key))


@dataclass(slots=True)
class Refusals:
    """What the store of a bucket refuses: objects and folders by name, with how many requests pass before, and how many do not.

    HEAD of archived objects is allowed.
    """

    names: tuple[str, ...] = ()
    passes: int = 0
    times: int = 0
    is_archived: bool = False

    def met(self, name: str, *, is_head: bool) -> LedgerfsError | None:
        """Return the refusal of a request, or None, and count it."""
        if name not in self.names or (is_head and self.is_archived):
            return None
        if self.passes:
            self.passes -= 1
            return None
        self.times -= 1
        error = ArchivedObjectError if self.is_archived else AccessDeniedError
        return error("the store of a model refuses this", key=name) if self.times >= 0 else None


@dataclass(slots=True)
class World:
    """All of it.

    Attributes
    ----------
    contents
        What each ledger holds that ever was, by its name.
    refusals
        For each bucket what its store refuses.
    clock
        The present time, ms since 1970 UTC.
    exports
        For each folder the buckets that were exported to it, and whether that was ever done.
    exporting
        Folders into which somebody exports just now.
    registry
        The schemas of the topic, as the clusters have them.
    saved
        For each bucket the schemas that are saved in it.
    typed_exports
        For each folder with columns of values the schemas of those who exported to it.
    words
        How many schemas were given by hand.
    witness
        Somebody who only reads, and lists a bucket each time.

    """

    places: Sequence[Place]
    folder: Path
    block_size: int | None = None
    models: list[BucketModel] = field(default_factory=lambda: [BucketModel(), BucketModel()])
    refusals: list[Refusals] = field(default_factory=lambda: [Refusals(), Refusals()])
    clusters: list[Cluster] = field(default_factory=lambda: [Cluster(0), Cluster(1)])
    contents: dict[Key, Content] = field(default_factory=dict)
    clock: int = CREATED_MS
    exports: dict[Path, dict[int, bool]] = field(default_factory=dict)
    exporting: set[Path] = field(default_factory=set)
    registry: Registry = field(default_factory=Registry)
    saved: list[SavedModel] = field(default_factory=lambda: [SavedModel(), SavedModel()])
    typed_exports: dict[Path, list[tuple[SchemaVersion, ...]]] = field(default_factory=dict)
    witness: Actor = field(init=False)
    words: int = 0
    _rows: int = 0

    def __post_init__(self) -> None:
        self.witness = Actor(self, "witness", self.folder / "witness", is_witness=True)

    def actors(self) -> list[Actor]:
        """Return the actors: commands, commands that keep catalogs and share them, and sessions."""
        cache = self.folder / "cache"
        return [
            Actor(self, "command", cache / "0"),
            Actor(self, "other command", cache / "1"),
            Actor(self, "keeping command", cache / "2", max_age=3600),
            Actor(self, "other keeping command", cache / "2", max_age=3600),
            Actor(self, "session", cache / "3", is_session=True),
            Actor(self, "other session", cache / "4", is_session=True),
        ]

    def rows(self, count: int, hours: Sequence[int] = ()) -> tuple[Row, ...]:
        """Return new rows, published now, or so many hours from now, and lets time pass."""
        made = []
        for number in range(count):
            self._rows += 1
            shift = hours[number % len(hours)] if hours else 0
            time_ms = max(self.clock + shift * HOUR + number, CREATED_MS - 100 * HOUR)
            made.append(Row(f"row {self._rows}" + "." * (self._rows % 7), time_ms))
        self.clock += HOUR
        return tuple(made)

    @contextmanager
    def acting(
        self,
        actor: Actor,
        meeting: Meeting | None = None,
        content_of: ContentOf | None = None,
        *,
        may_delete: bool = False,
    ) -> Iterator[Running]:
        """Let an actor do something, in the middle of which somebody else may."""
        assert actor.running is None
        if not actor.is_session:
            actor.refused.clear()
        actor.running = Running(content_of, meeting, may_delete)
        try:
            yield actor.running
        finally:
            actor.running = None

    def require_nothing_left(self, number: int, running: Running, error: LedgerfsError) -> None:
        """Say that nothing may be there of what an operation has failed to write."""
        left = [key for key in running.published if key in self.models[number].now]
        assert not left, f"failed with {error!r}, and yet published {left}"

    def acknowledge(self, number: int, running: Running, keys: Sequence[Key]) -> None:
        """Say that ledgers are there, as their writer does, unless somebody has deleted them meanwhile."""
        for key in keys:
            assert key in running.published, f"{key} is said to be written, and was not"
            assert key not in running.removed, f"{key} is said to be written, and was taken back"
            if key in self.models[number].now:
                self.models[number].acknowledged.add(key)

    def seal(self, cluster: int, topic: str, count: int, *, is_chunked: bool, is_mapfile: bool) -> None:
        """A broker closes a ledger of so many messages, or two, with a chunked message from the one to the other."""
        broker, created = self.clusters[cluster], self.clock
        messages = self._produced(count)
        if not is_chunked:
            broker.seal(topic, messages, created, is_mapfile=is_mapfile)
            return
        (row,) = self._produced(1)
        first, last = Part(row, 0, 2), Part(row, 1, 2)
        broker.seal(topic, (*messages, first), created, is_mapfile=is_mapfile)
        broker.seal(topic, (last, *self._produced(1)), row.time_ms, is_mapfile=not is_mapfile)

    def _produced(self, count: int) -> tuple[Row, ...]:
        """Return new rows as producers send them: by the schemas that the clusters have just now, the newest or the one before."""
        live = self.registry.in_use
        rows = self.rows(count)
        if not live:
            return rows
        of_rows = [live[-1 - identity_of(row) % min(2, len(live))] for row in rows]
        return tuple(typed(row, Written(one.kind, one.version, None)) for row, one in zip(rows, of_rows, strict=True))

    def arrive(self, number: int, sealed: Sealed, *, is_begun: bool = False) -> None:
        """Put a broker's ledger into a bucket, or only what follows its first half, past all of ledgerfs."""
        model, key, copy = self.models[number], sealed.key, sealed.copy
        self.places[number].put(sealed.second_half if is_begun else sealed.made.objects, sealed.content.topic)
        self.contents[key] = sealed.content
        known = model.now.get(key)
        is_lost = is_begun and copy.layout == "pulsar_blob" and key not in model.halves
        model.put(key, replace(copy, has_data=not is_lost or (known is not None and known.has_data)))
        model.acknowledged.add(key)

    def begin_to_arrive(self, number: int, sealed: Sealed) -> None:
        """Put the first half of a broker's ledger into a bucket."""
        self.places[number].put(sealed.first_half, sealed.content.topic)
        self.contents[sealed.key] = sealed.content
        self.models[number].halves.add(sealed.key)

    def destroy(self, number: int, key: Key, *, data: bool, index: bool) -> None:
        """Delete objects of a ledger, past all of ledgerfs."""
        model = self.models[number]
        names = objects_of(key, model.now[key])
        if model.now[key].layout == "mapfile":
            # It can be read without its index; and without its data it looks like one that is being written.
            model.halves.add(key)
            if data:
                self.places[number].delete(names[0])
                model.remove(key)
            if index:
                self.places[number].delete(names[1])
            return
        if data and model.now[key].has_data:
            self.places[number].delete(names[0])
            model.lose_data(key)
        if index:
            self.places[number].delete(names[1])
            if model.now[key].has_data:
                model.halves.add(key)
            model.remove(key)


def objects_of(key: Key, copy: Copy) -> tuple[str, str]:
    """Return the names of a ledger's data and index."""
    uuid, ledger_id = key
    if copy.layout == "mapfile":
        folder = f"{managed_ledger_of(copy.content.topic)}/{ledger_id}-{uuid}"
        return f"{folder}/data", f"{folder}/index"
    return f"{uuid}-ledger-{ledger_id}", f"{uuid}-ledger-{ledger_id}-index"


def content_of_messages(content: Content) -> ContentOf:
    """Return what tells of every ledger that it holds this."""
    return lambda key, index: content
