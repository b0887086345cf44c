"""All that is known of the schemas of a bucket's topics: what is saved in it, given by hand, and what a living cluster itself has."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ledgerfs.errors import CorruptObjectError, LedgerfsError, StaleObjectError
from ledgerfs.formats.schemas.schema_info import SchemaVersion
from ledgerfs.schemas.saved_schemas import SavedSchemas
from ledgerfs.storage.ordered_map import ordered_map

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket

_THREADS = 8

OnDamage = Callable[[str, LedgerfsError], None]
"""Is told of a topic whose schemas cannot be read, and why."""


class KnownSchemas:
    """`ledgerfs.schemas.saved_schemas.SchemaStore` of a bucket or living cluster.

    All methods raise as those of `SavedSchemas`, and as `ledgerfs.catalog.source.Source.schema_versions`.
    """

    __slots__ = ("_bucket", "_saved")

    def __init__(self, bucket: "Bucket") -> None:
        self._bucket = bucket
        self._saved = SavedSchemas(bucket.raw_store) if bucket.has_objects else None

    @property
    def source(self) -> str:
        """Where schemas are saved in the bucket; the URL of a cluster."""
        return self._bucket.url if self._saved is None else self._saved.source

    def versions(self, topic: str) -> tuple[SchemaVersion, ...]:
        """Return all that is known of a topic."""
        return self._bucket.source.schema_versions(topic) if self._saved is None else self._saved.versions(topic)

    def version(self, topic: str, number: int) -> tuple[SchemaVersion, ...]:
        """Return what is known of one number."""
        return tuple(one for one in self.versions(topic) if one.version == number)

    def topics(self) -> list[str]:
        """Return the topics whose schemas the cluster itself has, sorted; none for a bucket."""
        return list(self._bucket.source.schema_topics())

    def all_versions(self, on_damage: OnDamage) -> dict[str, tuple[SchemaVersion, ...]]:
        """Return what is known of each topic, by the topics' names, sorted; without those of the cluster's that are damaged."""
        found = self.versions_of(self.topics(), on_damage) if self._saved is None else self._saved.all_versions()
        return {name: found[name] for name in sorted(found) if found[name]}

    def versions_of(self, topics: Sequence[str], on_damage: OnDamage) -> dict[str, tuple[SchemaVersion, ...]]:
        """Return what is known of topics, some read at a time; those whose schemas are damaged are left out, and ``on_damage`` is told."""
        found: dict[str, tuple[SchemaVersion, ...]] = {}
        for name, versions in zip(
            topics, ordered_map(self._tried, topics, _THREADS, "ledgerfs-schemas-of"), strict=True
        ):
            if isinstance(versions, LedgerfsError):
                on_damage(name, versions)
            else:
                found[name] = versions
        return found

    def _tried(self, topic: str) -> tuple[SchemaVersion, ...] | LedgerfsError:
        try:
            return self.versions(topic)
        except (CorruptObjectError, StaleObjectError) as error:
            return error

    def require_place(self) -> None:
        """Raise `BucketNotFoundError` if the bucket or cluster is not there: nothing is known of it either."""
        if self._saved is None:
            self._bucket.load_catalog()
        else:
            self._saved.require_place()
