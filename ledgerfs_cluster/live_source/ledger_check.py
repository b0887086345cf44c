"""Check every entry of one ledger of a live cluster: digests, checksums of messages, totals."""

from dataclasses import dataclass

from ledgerfs.catalog.catalog_findings import severity_of
from ledgerfs.catalog.findings import Severity
from ledgerfs.errors import LedgerfsError, NotFoundError, StaleObjectError, StoreUnreachableError
from ledgerfs_cluster.cluster_check import ClusterCheck
from ledgerfs_cluster.live_source.reader import LiveReader


@dataclass(slots=True)
class LiveCheck(ClusterCheck):
    """The check of one ledger: run it, then read its findings."""

    ledger: LiveReader

    def run(self) -> "LiveCheck":
        """Check everything; bookies that do not answer raise `StoreUnreachableError`."""
        try:
            for batch in self.ledger.batches_from_anywhere(0, self.ref.last_entry, self.lost, self._failed):
                size = int(batch.lengths.sum())
                self.bytes += size
                self.on_bytes(size)
                self.take(batch)
            self.check_totals()
        except StoreUnreachableError:
            raise
        except StaleObjectError as error:
            self.find(Severity.REMARK, "deleted-meanwhile", error.reason)
        except NotFoundError as error:
            self.find(Severity.DAMAGE, "lost-ledger", error.reason)
        except LedgerfsError as error:
            self.find(severity_of(error), "unreadable-object", error.reason, error.key, error.offset)
        return self

    def _failed(self, place: str, error: LedgerfsError) -> None:
        message = f"its copy in the {place} cannot be read: {error.reason}"
        self.find(severity_of(error), "unreadable-copy", message, error.key, error.offset)
