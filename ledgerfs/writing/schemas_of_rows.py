"""Choose the schema version that rows are written with, and keep its number unique: readers decode the rows by it.

The schema is saved beside the bucket before the ledger appears, even if a user set the same one by hand, because that can be undone. Each
number has one object for the schemas of written rows, which only one writer can create; every writer reads it back, and its ledger appears
only if nothing contradicts its schema. If a contradiction is saved later (the cluster's schema, by ``ledgerfs schemas save``), reading such
rows raises an error, and never returns wrong values.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.errors import InvalidOptionError, InvalidRowsError, SchemaConflictError
from ledgerfs.formats.schemas.schema_info import ANY_VERSION, BY_IMPORT, LARGEST_VERSION, SchemaInfo, SchemaVersion
from ledgerfs.formats.schemas.schema_versions import REGISTRATION_SLACK_MS, TopicSchemas
from ledgerfs.formats.topic_names import schema_owner, schema_topic
from ledgerfs.schemas.saved_schemas import SavedSchemas


@dataclass(frozen=True, slots=True)
class SchemaOfRows:
    """A schema that rows are written with, and its number in their messages."""

    topic: str
    schema: SchemaInfo
    version: int

    @classmethod
    def of(cls, bucket: Bucket, topic: str, schema: SchemaInfo, version: int | None) -> "SchemaOfRows":
        """Return a schema with its number: the given one, or that of an equal saved schema, or 0 for a new topic.

        Checking whether a topic is new costs a listing.

        Raises
        ------
        InvalidOptionError
            The number is required: other schemas of the topic are saved, or it has messages of unknown schemas.
        SchemaConflictError
            The number has another schema.

        """
        if version is not None and (isinstance(version, bool) or not isinstance(version, Integral)):
            raise InvalidOptionError("expected a version number", key=f"schema version {version!r}")
        version = None if version is None else int(version)  # numpy has integers of its own
        name = schema_owner(topic).topic
        saved = SavedSchemas(bucket.raw_store).versions(name)
        known = TopicSchemas.of(saved)
        if version is None:
            version = _version_in(known, schema)
        if version is None:
            has_versions = any(one.version != ANY_VERSION for one in known.versions)
            if has_versions or _has_ledgers(bucket.list_to_write(), name):
                what = (
                    "the saved schemas of the topic do not include this one"
                    if has_versions
                    else "no version of this topic's schema is saved, but it has ledgers"
                )
                raise InvalidOptionError(f"is required (--schema-version): {what}", key="schema version")
            version = 0
        if not 0 <= version <= LARGEST_VERSION:
            raise InvalidOptionError("expected a version number, from 0 on", key=f"schema version {version}")
        made = cls(name, schema, version)
        made._require_same(saved)
        return made

    def save(self, bucket: Bucket, earliest_ms: int | None) -> None:
        """Save the schema, unless it is saved, and check that it is used to read rows that were published since ``earliest_ms``.

        Raises `SchemaConflictError` if the number has another schema by now, and `InvalidRowsError` for rows that are older than the saved
        version: readers would use an earlier schema of that number. Also the errors of `SavedSchemas.add`.
        """
        store = SavedSchemas(bucket.raw_store)
        before = store.versions(self.topic)
        self._require_same(before)
        store.add(self.topic, [self._reported(before)])
        saved = store.versions(self.topic)
        self._require_same(saved)
        self._require_known(TopicSchemas.of(saved).numbered(self.version), earliest_ms)

    def _reported(self, saved: Sequence[SchemaVersion]) -> SchemaVersion:
        """Return the version to save.

        It is saved even if the cluster's equal one is: the cluster may have given the number to another schema by now, which is not saved.
        Then the number may have meant another schema before the time of the cluster's one. Times that users set by hand can be undone.
        """
        of_number = [one for one in saved if one.version == self.version and not one.is_by_hand and not one.is_deletion]
        times = [one.timestamp_ms for one in of_number if one.timestamp_ms is not None]
        return SchemaVersion(
            self.version, self.schema, min(times, default=None), source=BY_IMPORT, saved_ms=int(time.time() * 1000)
        )

    def _require_same(self, saved: Sequence[SchemaVersion]) -> None:
        """Raise `SchemaConflictError` if messages of the number have, or may have, another schema."""
        known = TopicSchemas.of(saved)
        in_effect = known.numbered(self.version)
        # Rows of another schema would be read with this one as soon as the one that a user set by hand is undone.
        hidden = [one for one in saved if one.version == self.version and one.is_by_import and one not in in_effect]
        for one in (*in_effect, *hidden):
            if not one.schema.means_the_same(self.schema):
                hides = "a schema that was set by hand overrides it, but may be removed again; choose another number"
                source = f" ({one.source})" if one.source else ""
                advice = hides if one in hidden else "pass the number of this schema"
                raise self._conflict(f"is another schema, of type {one.schema.type}{source}; {advice}")
        if known.may_be_deleted(self.version):
            raise self._conflict(
                "is unknown, and may belong to a deleted schema of existing messages. Choose a higher number, "
                "or set the schema by hand (ledgerfs schemas set)"
            )
        if in_effect and all(one.is_by_hand and one.timestamp_ms is not None for one in in_effect):
            raise self._conflict(
                "was set by hand only from a certain time on; set it without the time, or choose another number"
            )

    def _conflict(self, reason: str) -> SchemaConflictError:
        return SchemaConflictError(f"schema version {self.version} {reason}", key=self.topic)

    def _require_known(self, generations: Sequence[SchemaVersion], earliest_ms: int | None) -> None:
        if not generations:
            raise self._conflict("was removed while rows were written with it")
        times = [one.timestamp_ms for one in generations]
        since = min((one for one in times if one is not None), default=None)
        if None in times or since is None or earliest_ms is None or earliest_ms + REGISTRATION_SLACK_MS >= since:
            return
        reason = (
            f"rows published at {iso_time(earliest_ms)} have schema version {self.version}, which was registered later, "
            f"at {iso_time(since)}: readers would use an older schema with this number. "
            "Choose another number, or set the schema by hand (ledgerfs schemas set)"
        )
        raise InvalidRowsError(reason, key="publish_time")


def _version_in(known: TopicSchemas, schema: SchemaInfo) -> int | None:
    """Return the latest number of an equal schema; None if there is none, or a deletion hides it from Pulsar's readers."""
    for one in reversed(known.versions):
        if one.version > known.last_deletion and one.schema.means_the_same(schema):
            return one.version
    return None


def _has_ledgers(catalog: Catalog, topic: str) -> bool:
    """Whether the topic, or a partition of it, has ledgers."""
    return topic in map(schema_topic, catalog.managed_ledgers)
