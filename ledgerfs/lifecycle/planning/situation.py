"""What a plan is made for, besides the survey and the rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ledgerfs.lifecycle.journal.trash_line import TrashLine
from ledgerfs.lifecycle.planning.actions import AttemptNote
from ledgerfs.lifecycle.planning.leftovers import OrphanLedger, OrphanOffload
from ledgerfs.lifecycle.policy.policy_file import PolicyFile


@dataclass(frozen=True, slots=True)
class Notes:
    """What is noted in the cluster of work that began.

    Attributes
    ----------
    lines, attempts
        Of the trash journal, and attempts to offload.
    unreadable
        {path: why} of notes that are none of ours, or damaged.

    """

    lines: Sequence[TrashLine] = ()
    attempts: Sequence[AttemptNote] = ()
    unreadable: dict[str, str] = field(default_factory=dict)


NO_NOTES = Notes()


@dataclass(frozen=True, slots=True)
class Orphans:
    """What nobody names, as two looks are sure of it.

    Attributes
    ----------
    ledgers
        In BookKeeper.
    offloads
        Objects in the buckets of the policy file.
    unlisted
        {URL: why} of those buckets in which nobody could look for any.

    """

    ledgers: Sequence[OrphanLedger] = ()
    offloads: Sequence[OrphanOffload] = ()
    unlisted: Mapping[str, str] = field(default_factory=dict)

    def why_unlisted(self, url: str | None) -> str | None:
        """Return why nobody could look into the bucket of a URL; None if it was looked into, or the policy file does not have it."""
        return next((why for one, why in self.unlisted.items() if one.rstrip("/") == (url or "").rstrip("/")), None)


@dataclass(frozen=True, slots=True)
class Situation:
    """What a plan is made for.

    Attributes
    ----------
    file
        The policy file.
    now_ms
        By which is decided, ms since 1970 UTC.
    noted_ms
        Which is noted as the time from when on something waits: not before ``now_ms``.
    has_admin
        Whether a broker can be asked to do something.
    notes
        Of work that began.
    orphans
        None if nobody has looked for any.
    wanted
        The managed ledgers to plan for; empty for all.
    attempt_grace_ms
        For how long attempts that are noted are left alone: they may go on. Whoever holds the lock has none to wait for.

    """

    file: PolicyFile
    now_ms: int
    noted_ms: int
    has_admin: bool = False
    notes: Notes = NO_NOTES
    orphans: Orphans | None = None
    wanted: frozenset[str] = frozenset()
    attempt_grace_ms: int = 0

    def is_wanted(self, managed_ledger: str | None) -> bool:
        """Whether to plan for a managed ledger."""
        return not self.wanted or managed_ledger in self.wanted
