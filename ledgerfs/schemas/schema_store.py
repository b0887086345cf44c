"""The seam to schemas: what ledgerfs needs of any place that knows the schemas of topics."""

from typing import Protocol

from ledgerfs.formats.schemas.schema_info import SchemaVersion


class SchemaStore(Protocol):
    """A place that knows schemas. Nothing is kept: each call asks the place. May be used from several threads.

    Topics are named as `formats.topic_names.managed_ledger_of` takes them; partitions have the schemas of the whole.
    """

    @property
    def source(self) -> str:
        """The place's name, for people, without credentials."""
        ...

    def versions(self, topic: str) -> tuple[SchemaVersion, ...]:
        """Return all that is known of a topic's schemas, ascending by number, then by time; none if there is nothing.

        A number that was given again after a forced deletion is there more than once.
        """
        ...

    def version(self, topic: str, number: int) -> tuple[SchemaVersion, ...]:
        """Return what is known of one number, ascending by time; none if there is nothing."""
        ...
