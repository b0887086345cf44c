"""What became of what was to be done."""

from dataclasses import dataclass, field

from ledgerfs.offload.remarks import Remark


@dataclass(slots=True)
class Done:
    """What became of some ledgers of one topic.

    Attributes
    ----------
    ledger_ids
        Those that it was done to.
    size
        Bytes of those that were freed, or will be once bookies collect their garbage; of others that were marked or offloaded.
    postponed
        {ledger: why nothing was done to it now}.
    later
        Ledgers whose turn has not come, as it was over before.
    remarks
        What somebody has to know or to do, a sentence each.

    """

    ledger_ids: list[int] = field(default_factory=list)
    size: int = 0
    postponed: dict[int, str] = field(default_factory=dict)
    later: list[int] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
