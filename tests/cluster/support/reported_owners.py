"""Owners of the one topic of a test, as the test tells them."""

from typing import TYPE_CHECKING

from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.snapshot.bundles import Owner
from tests.cluster.support.live_clusters import TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = managed_ledger_of(TOPIC)


class ReportedOwners:
    """Owners of `TOPIC`; ``when_asked`` may do something before each answer."""

    def __init__(self) -> None:
        self.owner = Owner.NONE
        self.unloaded: list[str] = []
        self.when_asked: Callable[[], None] = lambda: None

    def owner_of(self, managed_ledger: str) -> Owner:
        assert managed_ledger == NAME
        self.when_asked()
        return self.owner

    def unload(self, managed_ledger: str) -> None:
        self.unloaded.append(managed_ledger)
        self.owner = Owner.NONE
