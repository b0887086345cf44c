"""What one read of a scan found out beside its rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ledgerfs.catalog.missing_ledgers import MissingLedger
from ledgerfs.catalog.row_dependencies import Basis
from ledgerfs.messages.decode.chunks import Incomplete
from ledgerfs.messages.decode.entries import Skipped
from ledgerfs.messages.decode.undecodable import Undecodable


@dataclass(slots=True)
class ScanReport:
    """What a read left out, and what its rows depend on. The read fills it in with each batch; it is whole when the read has ended.

    Attributes
    ----------
    topic
        Name of the topic.
    skipped
        Entries left out because of ``on_corrupt="skip"`` or ``on_unreadable="skip"``.
    incomplete
        Chunked messages that lack parts. A message that waits for parts at the end of the entries is among them only if that is the end of
        the topic.
    undecodable
        Values and times that could not be decoded, by version and reason.
    missing
        Ledgers of the topic that cannot be read; the rows have none of their messages.
    bases
        Of each part (a partition, or the topic itself) that was read to its end: the ledgers that its rows depend on besides their own.
    is_whole
        Whether all was read, to the last row.

    """

    topic: str = ""
    skipped: list[Skipped] = field(default_factory=list)
    incomplete: list[Incomplete] = field(default_factory=list)
    undecodable: list[Undecodable] = field(default_factory=list)
    missing: Sequence[MissingLedger] = ()
    bases: list[Basis] = field(default_factory=list)
    is_whole: bool = False

    def begin(self, topic: str, missing: Sequence[MissingLedger]) -> None:
        """Begin with a read: a report has what one read found out, and nothing of an earlier one."""
        self.topic, self.missing, self.is_whole = topic, missing, False
        for found in (self.skipped, self.incomplete, self.undecodable, self.bases):
            found.clear()

    @property
    def is_final(self) -> bool:
        """Whether all was read, and no ledger that is uploaded later, before, between or after the others, can change the rows.

        False if a transaction had no outcome, a chunked message lacked parts, or was joined from several ledgers, between which others may
        come; if a ledger was left out of the range of time because of when others were created; or if the topic lacks ledgers.
        """
        return self.is_whole and not self.missing and all(one.is_final for one in self.bases)

    @property
    def basis(self) -> Basis:
        """The ledgers that the rows depend on besides their own; of a scan with one part."""
        return self.bases[0] if self.is_whole and len(self.bases) == 1 else Basis.unknown()

    @property
    def is_damaged(self) -> bool:
        """Whether rows are missing, or values of them, because of damage."""
        return bool(self.skipped or self.missing or any(one.is_error for one in self.undecodable))
