"""What nobody names, and what a list calls deleted and is there: values, and the lines of the trash journal that they become."""

from collections.abc import Iterator
from dataclasses import dataclass

from ledgerfs.clusters.orphans import known_topics, topic_made_for
from ledgerfs.clusters.ownership import MANAGED_LEDGER
from ledgerfs.clusters.survey import Survey
from ledgerfs.clusters.tables import Table
from ledgerfs.formats.bookkeeper.ledger_nodes import LedgerState


@dataclass(frozen=True, slots=True)
class OrphanLedger:
    """A ledger in BookKeeper that nothing names.

    Attributes
    ----------
    version
        Of its node.
    size
        Its bytes; 0 for one that is not closed.
    component, owner
        What it was made for by its metadata: the component's word, and the topic or schema.
    is_closed
        Whether no writer may have it open.
    is_known
        Whether this cluster has the topic.
    created_ms, changed_ms
        When its node was made, and last set, ms since 1970 UTC.
    has_states
        Whether it was made for states of a subscription.

    """

    ledger_id: int
    version: int
    size: int
    component: str
    owner: str
    is_closed: bool
    is_known: bool
    created_ms: int
    changed_ms: int
    has_states: bool = False

    @property
    def managed_ledger(self) -> str | None:
        """The topic in whose list it would be; None for ledgers of schemas and the like."""
        return self.owner if self.component == MANAGED_LEDGER else None


@dataclass(frozen=True, slots=True)
class OrphanOffload:
    """The objects of an offload that no list names.

    Attributes
    ----------
    bucket
        The URL of the bucket.
    managed_ledger
        By the user metadata of the objects; None if these do not tell.
    is_known
        Whether this cluster has the topic.
    size
        Bytes of all objects.
    modified_ms
        When the younger object was written, ms since 1970 UTC.
    entries, length
        Of the ledger, and bytes of these, by its index; -1 where objects and index are no whole ledger.

    """

    ledger_id: int
    uuid: str
    bucket: str
    managed_ledger: str | None
    is_known: bool
    size: int
    modified_ms: int
    entries: int = -1
    length: int = -1


def orphan_ledgers(survey: Survey, rows: Table) -> Iterator[OrphanLedger]:
    """Yield the ledgers of rows of `LEDGER` of a survey, which nothing names."""
    known = known_topics(survey)
    for row in rows:
        component, owner = survey.words[int(row["component"])], survey.words[int(row["owner"])]
        is_closed = bool(row["state"] == LedgerState.CLOSED)
        yield OrphanLedger(
            int(row["ledger_id"]),
            int(row["version"]),
            int(row["length"]) if is_closed else 0,
            component,
            owner,
            is_closed,
            topic_made_for(component, owner) in known,
            int(row["created_ms"]),
            int(row["changed_ms"]),
            bool(row["cursor"] >= 0),
        )
