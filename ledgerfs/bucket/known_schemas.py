"""The schemas of topics: saved in the bucket, given by hand, or from a live cluster."""

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
"""Called with a topic whose schemas cannot be read, and the error."""


class KnownSchemas:
    """`ledgerfs.schemas.saved_schemas.SchemaStore` of a bucket or live cluster.

    All methods raise as those of `SavedSchemas`, and as `ledgerfs.catalog.source.Source.schema_versions`.
    """

    __slots__ = ("_bucket", "_saved")

    def __init__(self, bucket: "Bucket") -> None:
        self._bucket = bucket
        self._saved = SavedSchemas(bucket.raw_store) if bucket.has_objects else None

    @property
    def source(self) -> str:
        """The folder of saved schemas in the bucket; the URL of a cluster."""
        return self._bucket.url if self._saved is None else self._saved.source

    def versions(self, topic: str) -> tuple[SchemaVersion, ...]:
        """Return all known versions of a topic's schema."""
        return self._bucket.source.schema_versions(topic) if self._saved is None else self._saved.versions(topic)

    def version(self, topic: str, number: int) -> tuple[SchemaVersion, ...]:
        """Return the known versions with one number."""
        return tuple(one for one in self.versions(topic) if one.version == number)

    def topics(self) -> list[str]:
        """Return the topics with schemas in the cluster itself, sorted; none for a bucket."""
        return list(self._bucket.source.schema_topics())

    def all_versions(self, on_damage: OnDamage) -> dict[str, tuple[SchemaVersion, ...]]:
        """Return the known versions by topic, sorted by name, without topics of the cluster whose schemas are damaged."""
        found = self.versions_of(self.topics(), on_damage) if self._saved is None else self._saved.all_versions()
        return {name: found[name] for name in sorted(found) if found[name]}

    def versions_of(self, topics: Sequence[str], on_damage: OnDamage) -> dict[str, tuple[SchemaVersion, ...]]:
        """Return the known versions by topic, with concurrent reads; omits topics with damaged schemas, and calls ``on_damage``."""
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
        """Raise `BucketNotFoundError` if the bucket or cluster does not exist."""
        if self._saved is None:
            self._bucket.load_catalog()
        else:
            self._saved.require_place()
