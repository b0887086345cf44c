"""Copying the schemas that are saved beside a bucket (``_ledgerfs/schemas/``) together with the ledgers whose messages name them."""

from collections.abc import Iterable, Sequence

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import BucketNotFoundError, InvalidNameError, SchemaConflictError
from ledgerfs.formats.schemas.schema_info import SchemaVersion
from ledgerfs.formats.topic_names import schema_owner
from ledgerfs.schemas.saved_schemas import SavedSchemas


def schemas_to_copy(
    source: Bucket, target: Bucket, managed_ledgers: Iterable[str | None]
) -> dict[str, Sequence[SchemaVersion]]:
    """Return {topic: versions that the target lacks} for the topics of some managed ledgers; changes nothing.

    Raises `SchemaConflictError`, which names both, if the target has another schema of the same number, and the errors of reading either.
    Sources other than buckets have none saved.
    """
    if not source.has_objects:
        return {}
    here, there = SavedSchemas(source.raw_store), SavedSchemas(target.raw_store)
    owners = {_owner(name) for name in managed_ledgers}
    found: dict[str, Sequence[SchemaVersion]] = {}
    for topic, versions in here.all_versions().items():
        known = _versions_in(there, topic) if topic in owners else ()
        missing = [one for one in versions if one not in known]
        for one in missing:
            others = [other for other in known if other.version == one.version and not other.is_deletion]
            is_known = any(other.schema.means_the_same(one.schema) for other in others)
            if others and not (is_known or one.is_deletion):
                raise SchemaConflictError(
                    f"schema version {one.version} is of type {one.schema.type} in {here.source}, and another one, of type "
                    f"{others[0].schema.type}, in {there.source}; remove one of the two, or copy into another bucket",
                    key=topic,
                )
        if missing and topic in owners:
            found[topic] = missing
    return found


def _versions_in(saved: SavedSchemas, topic: str) -> tuple[SchemaVersion, ...]:
    """Return what is saved of a topic; nothing in a bucket that is not there yet."""
    try:
        return saved.versions(topic)
    except BucketNotFoundError:
        return ()


def _owner(managed_ledger: str | None) -> str | None:
    try:
        return None if managed_ledger is None else schema_owner(managed_ledger).topic
    except InvalidNameError:
        return None
