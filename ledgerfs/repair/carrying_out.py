"""Carrying repairs out, one after the other, with an outcome of each."""

from collections.abc import Iterator
from dataclasses import dataclass

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.repairs import Repair
from ledgerfs.errors import LedgerfsError, StoreUnreachableError
from ledgerfs.storage.object_store import RawStore


@dataclass(frozen=True, slots=True)
class RepairOutcome:
    """A repair that was carried out; with an error, it was not."""

    repair: Repair
    error: LedgerfsError | None


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """The repairs of a bucket; nothing is changed before `carry_out`."""

    bucket: Bucket
    items: tuple[Repair, ...]

    @property
    def to_do(self) -> list[Repair]:
        """The repairs that can be carried out, in their order."""
        ranked = [(item.action.rank, number) for number, item in enumerate(self.items) if item.action is not None]
        return [self.items[number] for _, number in sorted(ranked)]

    @property
    def left(self) -> list[Repair]:
        """The findings that cannot be repaired."""
        return [item for item in self.items if item.action is None]

    def carry_out(self) -> Iterator[RepairOutcome]:
        """Carry out one repair after the other, each only if the bucket is still as it was planned for; yield the outcomes.

        A repair that fails does not stop the others, and stopping between two leaves nothing half done. Raises `StoreUnreachableError`.
        """
        store = self.bucket.raw_store
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
