"""Whether a ledger of BookKeeper is the one that was marked, and as it was then: ids and versions are given anew in a new cluster."""

from ledgerfs.clusters.orphans import PULSAR
from ledgerfs.clusters.ownership import MANAGED_LEDGER
from ledgerfs.dialects.closed_ledgers import StoredLedger
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashLine, TrashState

CHANGED = "BookKeeper's metadata of it changed since it was marked"


def why_kept(line: TrashLine, found: StoredLedger) -> str | None:
    """Return why BookKeeper's node of a ledger is not deleted; None if it is.

    A line that is `UNLISTED` cannot be marked anew. So its ledger may lie on other bookies by now: what is closed gets no other end, and
    ids are not given twice.
    """
    if not found.node.is_closed:
        return "it is not closed: a writer may live"
    if (why := why_another(line, found)) is not None:
        return why
    has_moved = line.state is TrashState.UNLISTED and line.version >= 0 and _has_same_end(line, found)
    if found.version != line.version and not has_moved:
        return CHANGED
    return None


def why_another(line: TrashLine, found: StoredLedger) -> str | None:
    """Return why a ledger is not the one that was marked, though it has its id; None if it may be.

    A cluster that was initialised again gives ids from 0 on, and versions of nodes begin anew, too.
    """
    if found.made_ms > line.marked_ms:
        return "it was made after it was marked: ids were given anew"
    node, name = found.node, line.managed_ledger
    if node.application not in {None, PULSAR}:
        return f"it was made by {node.application}, and not by Pulsar"
    if name is None or line.kind is TrashKind.ORPHAN:
        return None
    made_for = node.owner
    is_of_list = node.component in {None, MANAGED_LEDGER} and node.told("pulsar/cursor") is None
    if is_of_list and made_for in {None, name}:
        return None
    return f"it was made for {node.component or 'a ledger'} {made_for or 'of nobody'}, and not for the list of {name}"


def _has_same_end(line: TrashLine, found: StoredLedger) -> bool:
    """Whether a closed ledger has the bytes that its line tells; the size of an offloaded one is that of its objects, and tells nothing."""
    return line.uuid is not None or found.node.length == line.size
