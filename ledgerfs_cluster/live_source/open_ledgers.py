"""Where ledgers end that are still written, which only their bookies know (``docs/formats/bookkeeper.md``).

Every entry carries the id of the last one that its writer knew to be on enough bookies. The newest such id of any bookie is the end up
to which everybody reads, as long as of each acknowledged entry a bookie answers that has it.

That end is true, and may be late: the newest entry may be on one bookie alone, which is enough to tell that all before it are safe. While
that one is silent the end is where the others know it, so it may go back. It cannot be told from copies instead: of a safe entry one copy
may be left, as of an entry that was never acknowledged, and a closed ledger would lack that.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ledgerfs.errors import LedgerfsError
from ledgerfs.storage.traffic import Traffic
from ledgerfs_cluster.bookies.asking import Asked, Told, ask_each
from ledgerfs_cluster.bookies.pool import BookiePool
from ledgerfs_cluster.bookies.window import Refusal
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode
from ledgerfs_cluster.formats.bookkeeper.requests import NEWEST
from ledgerfs_cluster.live_source.refusals import refusal_error

_TOGETHER = 64
"""Entries behind the confirmed ones that are asked for together."""


class LedgerEnd(NamedTuple):
    """The last entry of a ledger that can be read, -1 for none; bytes of all entries up to it; and the newest entry that any bookie has."""

    last_entry: int
    length: int
    newest: int


def ends_of(
    pool: BookiePool, nodes: Sequence[LedgerNode], traffic: Traffic, *, acknowledged: bool
) -> list[LedgerEnd | LedgerfsError]:
    """Return where each ledger ends, or why that cannot be told: too few bookies answer (`StoreUnreachableError`), or none may be asked.

    ``nodes`` are of ledgers that are not closed. With ``acknowledged`` entries count that are on as many bookies as the writer waits for,
    though no entry confirms them yet.
    """
    asked = [Asked(node, NEWEST, bookie) for node in nodes for bookie in node.ensembles[-1].bookies]
    answers = iter(ask_each(pool, asked, traffic))
    ends: list[LedgerEnd | LedgerfsError] = []
    for node in nodes:
        bookies = node.ensembles[-1].bookies
        ends.append(_confirmed(node, dict(zip(bookies, answers, strict=False))))
    if acknowledged:
        ends = [
            end if isinstance(end, LedgerfsError) else _acknowledged(pool, node, end, traffic)
            for node, end in zip(nodes, ends, strict=True)
        ]
    return _with_lengths(pool, nodes, ends, traffic)


def _confirmed(node: LedgerNode, told: dict[str, Told]) -> LedgerEnd | LedgerfsError:
    """Return the end by what the bookies of the last ensemble told, without its length."""
    if not _is_covered(node, told):
        refusals = [Refusal(bookie, one.code) for bookie, one in told.items() if not one.is_answer]
        return refusal_error(node.ledger_id, "where it ends", refusals)
    there = [one for one in told.values() if one.is_there]
    # An ensemble begins behind what was confirmed when it was made.
    confirmed = max([node.ensembles[-1].first_entry - 1, *(one.last_confirmed for one in there)])
    return LedgerEnd(confirmed, 0, max([confirmed, *(one.entry for one in there)]))


def _is_covered(node: LedgerNode, told: dict[str, Told]) -> bool:
    """Whether of each write set fewer bookies are silent than the writer waits for: then one that answers has each acknowledged entry."""
    bookies = node.ensembles[-1].bookies
    silent = [not told[bookie].is_answer for bookie in bookies]
    sets = ([silent[(start + k) % len(bookies)] for k in range(node.write_quorum)] for start in range(len(bookies)))
    return all(sum(one) < node.ack_quorum for one in sets)


def _acknowledged(pool: BookiePool, node: LedgerNode, end: LedgerEnd, traffic: Traffic) -> LedgerEnd | LedgerfsError:
    """Return the end behind all entries after the confirmed ones, without a gap, that enough bookies have.

    Bookies that are silent count as having what another one has. An entry that only silent ones may have is an error: without it the
    ledger would be shorter than it was a moment ago.
    """
    while end.last_entry < end.newest:
        entries = range(end.last_entry + 1, min(end.newest, end.last_entry + _TOGETHER) + 1)
        asked = [Asked(node, entry, bookie) for entry in entries for bookie in node.bookies_of(entry)]
        told = ask_each(pool, asked, traffic)
        for row, entry in enumerate(entries):
            copies = told[row * node.write_quorum : (row + 1) * node.write_quorum]
            there = sum(one.is_there for one in copies)
            if there + sum(not one.is_answer for one in copies) < node.ack_quorum:
                return end
            # One copy is enough where others may be on bookies that are away: a recovery would keep the entry, too.
            if not there:
                bookies = zip(node.bookies_of(entry), copies, strict=True)
                refusals = [Refusal(bookie, one.code) for bookie, one in bookies if not one.is_answer]
                return refusal_error(node.ledger_id, f"entry {entry}, behind the confirmed ones", refusals)
            end = end._replace(last_entry=entry)
    return end


def _with_lengths(
    pool: BookiePool, nodes: Sequence[LedgerNode], ends: list[LedgerEnd | LedgerfsError], traffic: Traffic
) -> list[LedgerEnd | LedgerfsError]:
    """Set the lengths, of which the last entry itself has the one up to it; its replicas are asked in turn."""
    ends = list(ends)
    left = [i for i, end in enumerate(ends) if isinstance(end, LedgerEnd) and end.last_entry >= 0]
    refusals: dict[int, list[Refusal]] = {i: [] for i in left}
    for replica in range(max((nodes[i].write_quorum for i in left), default=0)):
        asked = {i: _replica(nodes[i], ends[i], replica) for i in left if replica < nodes[i].write_quorum}
        for (i, one), told in zip(asked.items(), ask_each(pool, list(asked.values()), traffic), strict=True):
            end = ends[i]
            if told.is_there and isinstance(end, LedgerEnd):
                ends[i] = end._replace(length=told.length_so_far)
                left.remove(i)
            else:
                refusals[i].append(Refusal(one.bookie, told.code))
    for i in left:
        ends[i] = refusal_error(nodes[i].ledger_id, "its last confirmed entry", refusals[i])
    return ends


def _replica(node: LedgerNode, end: LedgerEnd | LedgerfsError, replica: int) -> Asked:
    entry = end.last_entry if isinstance(end, LedgerEnd) else 0
    return Asked(node, entry, node.bookies_of(entry)[replica])
