"""Deleting ledgers that nothing names, and that are not closed: brokers leave them where they are killed, or lose ZooKeeper.

A closed ledger has no writer. One that is not closed may have been made by a broker that was stopped before it named it, and goes on. So
whatever could name it is set again, as it is, by the commit that deletes it: a broker names a ledger at the version that it knows, before
the commit, which then fails, or never.
"""

from ledgerfs.errors import LedgerfsError
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import parse_cursor_info
from ledgerfs_cluster.formats.managed_ledgers.names import is_node_name, managed_ledger_path
from ledgerfs_cluster.lifecycle.acting.context import ActionContext
from ledgerfs_cluster.live_source.closed_ledgers import StoredLedger
from ledgerfs_cluster.offload.candidates import Listed, listed_or_none
from ledgerfs_cluster.offload.journal import JournalRecord
from ledgerfs_cluster.snapshot.bundles import Owner
from ledgerfs_cluster.zookeeper.changes import Operation, SetNode


def owners_set_again(
    context: ActionContext, record: JournalRecord, version: int | None, silent: set[str]
) -> list[Operation] | str:
    """Return what sets all that could name an open ledger as it is; or why the ledger is kept.

    ``version`` is that of the list by which was decided; ``silent`` are bookies that did not answer before, and gets more. Raises
    `ObjectNotFoundError` for a ledger that is gone, and the errors of ZooKeeper.
    """
    name = record.managed_ledger or ""
    listed = listed_or_none(context.lock.newest(), name)
    if listed is None or listed.node.version != version:
        return "the topic's list has changed since it was decided"
    # Behind the list: a broker that loads the topic from now on changes its version.
    if context.owners.owner_of(name) is not Owner.NONE:
        return "a broker has the topic, or it is not known whether one has"
    found = context.ledgers.found(record.ledger_id)
    if found.made_ms < listed.node.created_ms:
        # Versions begin again with a node: this one may have come to that of the list by which was decided.
        return "its topic's list was made later: it was lost, or the topic was deleted and made again"
    cursor = found.node.told("pulsar/cursor")
    if cursor is None:
        more: list[Operation] | str = _why_rows(context, listed, found, silent) or []
    else:
        more = _subscription(context, name, cursor, found)
    return more if isinstance(more, str) else [SetNode.of(listed.node, listed.node.data), *more]


def _why_rows(context: ActionContext, listed: Listed, found: StoredLedger, silent: set[str]) -> str | None:
    """Return why a ledger may have rows that its topic has lost; None if it has not.

    Brokers write only to what is listed, and trim from the oldest on: so what has entries was listed, and was trimmed if the list
    begins behind it.
    """
    first = listed.info.ledgers[0].ledger_id
    if found.node.ledger_id < first:
        return None
    if context.bookies is None:
        return "its bookies are not asked whether it has entries"
    is_empty = context.bookies.none_has_any(found.node, silent)
    if isinstance(is_empty, LedgerfsError):
        return f"it is not closed, and it is not known whether it has entries: {is_empty}"
    lost = f"its topic's list, which begins at ledger {first}, does not name the ledger: it was set back"
    return None if is_empty else f"it is not closed, and has entries; {lost}"


def _subscription(
    context: ActionContext, managed_ledger: str, cursor: str, found: StoredLedger
) -> list[Operation] | str:
    """Return what sets the subscription that a ledger was made for as it is; or why it may name the ledger.

    Nothing where there is no such subscription: its node is made before its first ledger is, so no broker knows a version of it at
    which it could name this one.
    """
    if not is_node_name(cursor):
        return f"it was made for {cursor!r}, which no subscription is called"
    # Behind the list, and behind the owner: no broker loads the topic, and sets this one, without setting the list.
    node = context.lock.node(f"{managed_ledger_path(managed_ledger)}/{cursor}")
    if node is None:
        return []
    if parse_cursor_info(node.data, key=node.path).cursors_ledger == found.node.ledger_id:
        return "its subscription names it now"
    if found.made_ms < node.created_ms:
        return "its subscription was made later: it was lost, or deleted and made again"
    return [SetNode.of(node, node.data)]
