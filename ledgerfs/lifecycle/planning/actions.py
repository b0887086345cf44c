"""A plan: what is to be done now, what waits and for what, and what must not be done, each with why."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from ledgerfs.lifecycle.journal.trash_line import TrashLine
from ledgerfs.lifecycle.policy.policy_file import Via
from ledgerfs.lifecycle.policy.topic_rules import TopicRule


class ActionKind(Enum):
    """What is done; the value is the word in JSON and tables."""

    OFFLOAD = "offload"
    """Ledgers are copied into a bucket."""
    MARK = "mark"
    """Lines of the trash journal are written: nothing is deleted yet."""
    DELETE = "delete"
    """What lines of the trash journal tell is deleted."""
    TRIM = "trim"
    """A broker is asked to do what retention and lag want of a topic that it owns."""
    CLEAN = "clean"
    """What an attempt that failed has left is deleted, or a line of the trash journal that does not hold any more is dropped."""


class Refusal(Enum):
    """Why something must not be done; the value is the word in JSON and tables."""

    GREATEST = "greatest-ledger"
    """It is the ledger with the greatest id of its list, which a broker makes anew from BookKeeper when it loads the topic."""
    TERMINATED = "terminated"
    """Loading a terminated topic does not change its list, so nobody would notice a broker that has it."""
    LOAD_MANAGER = "load-manager"
    """With the extensible load manager owners are not in ZooKeeper: nothing there changes when a broker takes a topic."""
    UNKNOWN_OWNER = "unknown-owner"
    """Brokers did not tell their bundles, or a broker's node could not be read."""
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
    """What its time to live has expired is not known."""
    SILENT_BOOKIES = "silent-bookies"
    """Bookies did not tell where a subscription is, or where the last ledger ends."""
    NO_TOPIC = "no-topic"
    """A pattern of the policy file is that of no topic: it may be misspelt, and others hold for what was meant."""
    UNREADABLE = "unreadable"
    """A node could not be read."""
    NO_BUCKET = "no-bucket"
    """It is not known where to offload to, or where objects are."""
    OTHER_BUCKET = "other-bucket"
    """A broker has to do it, whose policies name another bucket than the file."""
    BROKERS_LAG = "brokers-lag"
    """A broker has to do it, and would delete copies in BookKeeper that the file wants kept."""
    NOT_CLOSED = "not-closed"
    """The ledger is not closed in BookKeeper: a writer may live."""
    LOST = "not-in-bookkeeper"
    """BookKeeper does not have the ledger."""
    DIFFERENT = "different"
    """The topic's list and BookKeeper tell different entries or bytes of the ledger."""
    """Batches are to be split, and somebody knows ids of the ledger, such as a subscription that is in it."""
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
    why: str


class AttemptNote(Protocol):
    """An attempt to offload a ledger that was noted before it began, and whose note is there: no list was set by it."""

    @property
    def ledger_id(self) -> int:
        """The ledger."""

    @property
    def uuid(self) -> str:
        """By which its objects are named."""

    @property
    def managed_ledger(self) -> str:
        """The topic."""

    @property
    def bucket(self) -> str:
        """The URL of the bucket."""

    @property
    def began_ms(self) -> int:
        """When it was noted, ms since 1970 UTC."""


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
    why
        One sentence, with numbers.
    rule
        What holds for the topic; None where that does not matter.
    lines
        Of `ActionKind.MARK` those to be written, of others those that are gone on with, or dropped.
    attempts
        Those to be cleaned up.
    contexts
        Ledger and uuid of attempts that a list has as not complete, to be cleaned up.

    """

    kind: ActionKind
    managed_ledger: str | None
    ledger_ids: tuple[int, ...]
    size: int
    via: Via
    since_ms: int | None
    why: str
    rule: TopicRule | None = None
    lines: tuple[TrashLine, ...] = ()
    attempts: tuple[AttemptNote, ...] = ()
    contexts: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """Something that is not due yet.

    Attributes
    ----------
    due_ms
        When it will be, ms since 1970 UTC; None if time alone does not decide that.

    """

    kind: ActionKind
    managed_ledger: str | None
    ledger_ids: tuple[int, ...]
    size: int
    due_ms: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Something that must not be done.

    Attributes
    ----------
    kind
        What would be done; None if that is not known either.
    subject
        The managed ledger, or else the node or ledger that it is about.

    """

    kind: ActionKind | None
    subject: str
    ledger_ids: tuple[int, ...]
    size: int
    refusal: Refusal
    why: str


@dataclass(slots=True)
class Plan:
    """What is to be done with a cluster, as it is being made.

    Attributes
    ----------
    now_ms
        For when it is made, ms since 1970 UTC.
    actions, waiting, refused
        In the order in which they were found; `in_order` sorts them.

    """

    now_ms: int
    actions: list[Action]
    waiting: list[Waiting]
    refused: list[Refused]

    @classmethod
    def empty(cls, now_ms: int) -> "Plan":
        """Return a plan of nothing."""
        return cls(now_ms, [], [], [])

    def refuse(
        self, kind: ActionKind | None, subject: str, reason: Reason, ledger_ids: Iterable[int] = (), size: int = 0
    ) -> None:
        """Add what must not be done."""
        self.refused.append(Refused(kind, subject, tuple(ledger_ids), size, reason.refusal, reason.why))

    def in_order(self) -> "Plan":
        """Return the plan as it is shown: by kind, what is due for the longest time first."""
        kinds = list(ActionKind)
        never = 2**63

        def of(kind: ActionKind | None) -> int:
            return len(kinds) if kind is None else kinds.index(kind)

        return Plan(
            self.now_ms,
            sorted(
                self.actions,
                key=lambda one: (of(one.kind), one.since_ms or never, one.managed_ledger or "", one.ledger_ids),
            ),
            sorted(
                self.waiting,
                key=lambda one: (of(one.kind), one.due_ms or never, one.managed_ledger or "", one.ledger_ids),
            ),
            sorted(self.refused, key=lambda one: (one.refusal.value, of(one.kind), one.subject, one.ledger_ids)),
        )
