"""A plan: what is to be done now, what waits and for what, and what must not be done, each with a reason; and what it is made for."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from ledgerfs_cluster.lifecycle.policy.policy_file import PolicyFile, Via
from ledgerfs_cluster.lifecycle.policy.topic_rules import TopicRule
from ledgerfs_cluster.offload.journal import Journal, JournalRecord
from ledgerfs_cluster.offload.outcomes import Outcome, Status

if TYPE_CHECKING:
    from ledgerfs_cluster.lifecycle.planning.orphans import OrphanLedger, OrphanOffload


class ActionKind(Enum):
    """What is done; the value is the word in JSON and tables."""

    OFFLOAD = "offload"
    """Ledgers are copied into a bucket."""
    MARK = "mark"
    """Records of what nothing names are written to the journal: nothing is deleted yet."""
    DELETE = "delete"
    """What is marked, and whose grace is over, is deleted."""
    TRIM = "trim"
    """A broker is asked to delete what retention and lag let go of a topic."""
    CLEAN = "clean"
    """Objects of an attempt that failed are deleted, or a record that does not hold any more is dropped."""


class Refusal(Enum):
    """Why something must not be done; the value is the word in JSON and tables."""

    GREATEST = "greatest-ledger"
    """It is the ledger with the greatest id of its list, which a broker makes anew from BookKeeper when it loads the topic."""
    LOAD_MANAGER = "load-manager"
    """With the extensible load manager owners are not in ZooKeeper: nothing there changes when a broker takes a topic."""
    UNKNOWN_OWNER = "unknown-owner"
    """A broker's node could not be read."""
    OWNED = "owned"
    """A broker owns the topic's bundle, and may have it loaded."""
    NO_ADMIN = "no-admin"
    """A broker has to do it, and none is named."""
    SYSTEM_TOPIC = "system-topic"
    """It is a topic of brokers' own."""
    BEING_DELETED = "being-deleted"
    """Its namespace is being deleted."""
    UNKNOWN_POLICIES = "unknown-policies"
    """Policies of its namespace, or of single topics there, could not be read."""
    NO_TOPIC = "no-topic"
    """A pattern of the policy file is that of no topic: it may be misspelt, and others hold for what was meant."""
    UNREADABLE = "unreadable"
    """A node could not be read."""
    NO_BUCKET = "no-bucket"
    """It is not known where to offload to, or where objects are."""
    OTHER_BUCKET = "other-bucket"
    """A broker has to do it, whose policies name another bucket than the file."""
    NOT_CLOSED = "not-closed"
    """The ledger is not closed in BookKeeper: a writer may live."""
    LOST = "not-in-bookkeeper"
    """BookKeeper does not have the ledger."""
    DIFFERENT = "different"
    """The topic's list and BookKeeper tell different entries or bytes of the ledger."""
    SHARED = "shared"
    """Several lists name the ledger."""
    NAMED = "named"
    """A list names what should be named no more."""
    BACKUP = "backup"
    """Its topic is not offloaded to that bucket: it may be a copy that somebody keeps there."""
    LOST_LIST = "lost-list"
    """Its topic has an empty list, which no broker leaves: the list was lost, and this is what it had."""
    ANOTHER_CLUSTERS = "another-clusters"
    """This cluster has no such topic: it was deleted, or is of another cluster on the same BookKeeper or bucket."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something must not be done, by name and in words."""

    refusal: Refusal
    message: str


@dataclass(frozen=True, slots=True)
class Action:
    """Something to be done now.

    Attributes
    ----------
    kind, managed_ledger
        What, and of which topic; None for what has none that is known.
    ledger_ids, size
        The ledgers, the oldest first, and their bytes.
    via
        `Via.BROKER` or `Via.DIRECT`.
    since_ms
        From when on it has been due, ms since 1970 UTC; None if that is not known.
    reason
        One sentence, with numbers.
    rule
        What holds for the topic; None where that does not matter.
    records
        Of `ActionKind.MARK` those to be written, of others those that are deleted, cleaned up, or dropped.

    """

    kind: ActionKind
    managed_ledger: str | None
    ledger_ids: tuple[int, ...]
    size: int
    via: Via
    since_ms: int | None
    reason: str
    rule: TopicRule | None = None
    records: tuple[JournalRecord, ...] = ()


@dataclass(slots=True)
class Plan:
    """What is to be done with a cluster, as it is being made.

    Attributes
    ----------
    now_ms
        For when it is made, ms since 1970 UTC.
    actions
        In the order in which they were found; `in_order` sorts them.
    waiting, refused
        What is not due yet, and what must not be done: the code of the latter is the value of a `Refusal`.

    """

    now_ms: int
    actions: list[Action] = field(default_factory=list)
    waiting: list[Outcome] = field(default_factory=list)
    refused: list[Outcome] = field(default_factory=list)

    def wait(  # noqa: PLR0917  (what waits, of what, until when and why)
        self, kind: ActionKind, subject: str, ledger_ids: Iterable[int], size: int, due_ms: int | None, message: str
    ) -> None:
        """Add what is not due yet; ``due_ms`` is None if time alone does not decide that."""
        found = Outcome(Status.SKIPPED, "waiting", subject, message, tuple(ledger_ids), size, kind.value, due_ms)
        self.waiting.append(found)

    def refuse(
        self, kind: ActionKind | None, subject: str, reason: Reason, ledger_ids: Iterable[int] = (), size: int = 0
    ) -> None:
        """Add what must not be done."""
        action = "" if kind is None else kind.value
        code, ids = reason.refusal.value, tuple(ledger_ids)
        self.refused.append(Outcome(Status.SKIPPED, code, subject, reason.message, ids, size, action))

    def only(self, topics: Collection[str]) -> "Plan":
        """Return what is about some managed ledgers."""
        return Plan(
            self.now_ms,
            [one for one in self.actions if one.managed_ledger in topics],
            [one for one in self.waiting if one.subject in topics],
            [one for one in self.refused if one.subject in topics],
        )

    def in_order(self) -> "Plan":
        """Return the plan as it is shown: by kind, what is due for the longest time first."""
        kinds = [*(one.value for one in ActionKind), ""]
        never = 2**63
        return Plan(
            self.now_ms,
            sorted(
                self.actions,
                key=lambda one: (
                    kinds.index(one.kind.value),
                    one.since_ms or never,
                    one.managed_ledger or "",
                    one.ledger_ids,
                ),
            ),
            sorted(
                self.waiting,
                key=lambda one: (kinds.index(one.action), one.due_ms or never, one.subject, one.ledger_ids),
            ),
            sorted(self.refused, key=lambda one: (one.code, kinds.index(one.action), one.subject, one.ledger_ids)),
        )


@dataclass(frozen=True, slots=True)
class Orphans:
    """What nothing names, as two checks confirm it.

    Attributes
    ----------
    ledgers
        In BookKeeper.
    offloads
        Objects in the buckets of the policy file.
    unlisted
        {URL: reason} of those buckets that could not be listed.

    """

    ledgers: "Sequence[OrphanLedger]" = ()
    offloads: "Sequence[OrphanOffload]" = ()
    unlisted: Mapping[str, str] = field(default_factory=dict)

    def why_unlisted(self, url: str | None) -> str | None:
        """Return why the bucket of a URL could not be listed; None if it was, or if the policy file does not have it."""
        return next((why for one, why in self.unlisted.items() if one.rstrip("/") == (url or "").rstrip("/")), None)


@dataclass(frozen=True, slots=True)
class Situation:
    """What a plan is made for, besides the survey.

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
    journal
        Of work that began.
    orphans
        None if they were not looked for.
    attempt_grace_ms
        For how long attempts that are noted are left alone: they may go on. The holder of the lock has none to wait for.

    """

    file: PolicyFile
    now_ms: int
    noted_ms: int
    has_admin: bool = False
    journal: Journal = field(default_factory=Journal)
    orphans: Orphans | None = None
    attempt_grace_ms: int = 0
