"""A plan: actions that are due, that wait, and that are refused, each with a reason; and the situation that it is made for."""

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
    """Kind of an action; the value is the word in JSON and tables."""

    OFFLOAD = "offload"
    """Copy ledgers into a bucket."""
    MARK = "mark"
    """Write records of orphans to the journal, without deleting anything yet."""
    DELETE = "delete"
    """Delete marked orphans whose grace period is over."""
    TRIM = "trim"
    """Have a broker delete a topic's ledgers past retention, and BookKeeper's copies past their lag."""
    CLEAN = "clean"
    """Delete objects of a failed attempt, or drop a record that is no longer valid."""


class Refusal(Enum):
    """Reason to refuse an action; the value is the word in JSON and tables."""

    GREATEST = "greatest-ledger"
    """The ledger has the greatest id of its list: a broker writes its record again from BookKeeper when it loads the topic."""
    LOAD_MANAGER = "load-manager"
    """With the extensible load manager owners are not in ZooKeeper: no node there changes when a broker takes a topic."""
    UNKNOWN_OWNER = "unknown-owner"
    """A broker's node could not be read."""
    OWNED = "owned"
    """A broker owns the topic's bundle, and may have it loaded."""
    NO_ADMIN = "no-admin"
    """Only a broker may do it, and none is configured."""
    SYSTEM_TOPIC = "system-topic"
    """It is one of the brokers' system topics."""
    BEING_DELETED = "being-deleted"
    """Its namespace is being deleted."""
    UNKNOWN_POLICIES = "unknown-policies"
    """Policies of its namespace, or of single topics there, could not be read."""
    NO_TOPIC = "no-topic"
    """A pattern of the policy file matches no topic: if it is misspelt, other rules apply to the intended topics."""
    UNREADABLE = "unreadable"
    """A node could not be read."""
    NO_BUCKET = "no-bucket"
    """The bucket to offload to, or the bucket with the objects, is unknown."""
    OTHER_BUCKET = "other-bucket"
    """Only a broker may do it, and its policies name another bucket than the file."""
    NOT_CLOSED = "not-closed"
    """The ledger is not closed in BookKeeper: a writer may be alive."""
    LOST = "not-in-bookkeeper"
    """BookKeeper does not have the ledger."""
    DIFFERENT = "different"
    """The topic's list and BookKeeper have different entries or bytes of the ledger."""
    SHARED = "shared"
    """Several lists name the ledger."""
    NAMED = "named"
    """A list names an object that should no longer be named."""
    BACKUP = "backup"
    """Its topic is not offloaded to that bucket: it may be a user's backup copy."""
    LOST_LIST = "lost-list"
    """Its topic has an empty list, which no broker leaves: the list was lost, and had this ledger."""
    ANOTHER_CLUSTERS = "another-clusters"
    """This cluster has no such topic: it was deleted, or is of another cluster on the same BookKeeper or bucket."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason to refuse an action, by name and in words."""

    refusal: Refusal
    message: str


@dataclass(frozen=True, slots=True)
class Action:
    """An action that is due.

    Attributes
    ----------
    kind, managed_ledger
        Kind and topic; None for an unknown topic.
    ledger_ids, size
        The ledgers, the oldest first, and their bytes.
    via
        `Via.BROKER` or `Via.DIRECT`.
    since_ms
        Since when it has been due, ms since 1970 UTC; None if unknown.
    reason
        One sentence, with numbers.
    rule
        The topic's rule; None where it does not matter.
    records
        For `ActionKind.MARK` the records to write, otherwise those that are deleted, cleaned up, or dropped.

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
    """The work on a cluster; planning adds to it.

    Attributes
    ----------
    now_ms
        Time that it is made for, ms since 1970 UTC.
    actions
        In the order of planning; `in_order` sorts them.
    waiting, refused
        Work that is not due yet, and work that is refused: its code is the value of a `Refusal`.

    """

    now_ms: int
    actions: list[Action] = field(default_factory=list)
    waiting: list[Outcome] = field(default_factory=list)
    refused: list[Outcome] = field(default_factory=list)

    def wait(  # noqa: PLR0917  (the columns of an outcome)
        self, kind: ActionKind, subject: str, ledger_ids: Iterable[int], size: int, due_ms: int | None, message: str
    ) -> None:
        """Add work that is not due yet; ``due_ms`` is None if time alone does not decide that."""
        found = Outcome(Status.SKIPPED, "waiting", subject, message, tuple(ledger_ids), size, kind.value, due_ms)
        self.waiting.append(found)

    def refuse(
        self, kind: ActionKind | None, subject: str, reason: Reason, ledger_ids: Iterable[int] = (), size: int = 0
    ) -> None:
        """Add work that is refused."""
        action = "" if kind is None else kind.value
        code, ids = reason.refusal.value, tuple(ledger_ids)
        self.refused.append(Outcome(Status.SKIPPED, code, subject, reason.message, ids, size, action))

    def only(self, topics: Collection[str]) -> "Plan":
        """Return the parts about some managed ledgers."""
        return Plan(
            self.now_ms,
            [one for one in self.actions if one.managed_ledger in topics],
            [one for one in self.waiting if one.subject in topics],
            [one for one in self.refused if one.subject in topics],
        )

    def in_order(self) -> "Plan":
        """Return the plan in the order of display: by kind, longest due first."""
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
    """Orphans that two checks confirm.

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
        """Return the error of listing the bucket of a URL; None without one, or if the policy file does not have the bucket."""
        return next((why for one, why in self.unlisted.items() if one.rstrip("/") == (url or "").rstrip("/")), None)


@dataclass(frozen=True, slots=True)
class Situation:
    """The input of a plan besides the snapshot.

    Attributes
    ----------
    file
        The policy file.
    now_ms
        Time for decisions, ms since 1970 UTC.
    noted_ms
        Time to note as the start of a grace period: not before ``now_ms``.
    has_admin
        Whether a broker can be asked to work.
    journal
        Of work that has begun.
    orphans
        None without a search for them.
    attempt_grace_ms
        Time that noted attempts are left alone, ms: they may still be running. The holder of the lock need not wait.

    """

    file: PolicyFile
    now_ms: int
    noted_ms: int
    has_admin: bool = False
    journal: Journal = field(default_factory=Journal)
    orphans: Orphans | None = None
    attempt_grace_ms: int = 0
