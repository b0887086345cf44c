"""The listing of a dialect whose ledgers are no objects: those of a living cluster, and of disks of bookies."""

from collections.abc import Sequence

from ledgerfs.storage.objects import ObjectStat


class NoObjects:
    """Takes nothing (`ledgerfs.ledgers.dialect.Listing`)."""

    __slots__ = ()

    def take(self, page: Sequence[ObjectStat]) -> list[ObjectStat]:
        """Return all."""
        return list(page)

    def may_be_behind(self, key: str) -> bool:  # noqa: ARG002
        """Return False."""
        return False
