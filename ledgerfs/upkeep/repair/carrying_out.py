"""Carrying repairs out, one after the other, and what came of each."""

from collections.abc import Iterator
from dataclasses import dataclass

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import LedgerfsError, StoreUnreachableError
from ledgerfs.ledgers.repairs import Repair
from ledgerfs.storage.object_store import RawStore


@dataclass(frozen=True, slots=True)
class RepairOutcome:
    """A repair that was carried out, or, with an error, was not."""

    repair: Repair
    error: LedgerfsError | None


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What is to be done in a bucket; nothing is before `carry_out`."""

    bucket: Bucket
    items: tuple[Repair, ...]

    @property
    def to_do(self) -> list[Repair]:
        """What can be done, in the order in which it is."""
        ranked = [(item.action.rank, number) for number, item in enumerate(self.items) if item.action is not None]
        return [self.items[number] for _, number in sorted(ranked)]

    @property
    def left(self) -> list[Repair]:
        """What nothing can be done about."""
        return [item for item in self.items if item.action is None]

    def carry_out(self) -> Iterator[RepairOutcome]:
        """Do one thing after the other, each only if its grounds still hold; one that fails keeps none of the others from being done.

        Stopping between two of them leaves nothing half done. Raises `StoreUnreachableError`.
        """
        store = self.bucket.store.store
        try:
            for repair in self.to_do:
                yield _carried_out(repair, store)
        finally:
            self.bucket.expire()


def _carried_out(repair: Repair, store: RawStore) -> RepairOutcome:
    try:
        if repair.action is not None:
            repair.action.run(store)
    except StoreUnreachableError:
        raise
    except LedgerfsError as error:
        return RepairOutcome(repair, error)
    return RepairOutcome(repair, None)
