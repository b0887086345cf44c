"""Request a few entries of many ledgers from many bookies, mainly to find the ends of open ledgers.

Only bookies have the end of an open ledger (``docs/formats/bookkeeper.md``). Every entry carries the last add confirmed (LAC): the id of
the last entry that its writer knew to be on enough bookies. The newest LAC of any bookie is the end up to which all readers read, provided
that for each acknowledged entry a bookie with it answers.

That end is correct but may lag: only one bookie may have the newest entry, with the newest LAC. While that bookie is silent, the others
report an older LAC, so the end may go back. Copies cannot be counted instead: a safe entry may have one copy left, as may an entry that was
never acknowledged, and a closed ledger would lack that one.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ledgerfs.errors import LedgerfsError, StoreUnreachableError
from ledgerfs.storage.traffic import Traffic
from ledgerfs_cluster.bookies.pool import BookiePool, Leases
from ledgerfs_cluster.bookies.refusals import UNREACHABLE, WRONG_BYTES, Refusal, refusal_error
from ledgerfs_cluster.errors import CorruptReplyError
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode
from ledgerfs_cluster.formats.bookkeeper.replies import ReplyCode
from ledgerfs_cluster.formats.bookkeeper.requests import NEWEST, read_requests
from ledgerfs_cluster.formats.bookkeeper.stored_entries import check_entries

if TYPE_CHECKING:
    from ledgerfs_cluster.bookies.connection import Received

_TOGETHER = 256
"""Requests that are sent to a bookie before its replies are read."""

_BEHIND_TOGETHER = 64
"""Entries after the LAC that are requested together."""

_PAUSES_S = (0.1, 0.4, 1.0)
"""Pauses before each retry, s."""


class Asked(NamedTuple):
    """A request: an entry of a ledger, or `NEWEST`, and the bookie to ask."""

    node: LedgerNode
    entry: int
    bookie: str


class Reported(NamedTuple):
    """The reply of a bookie about an entry.

    Attributes
    ----------
    code
        A `ReplyCode`, `UNREACHABLE`, or `WRONG_BYTES`; the other values are only known if it is OK.
    entry, last_confirmed
        Ids of the entry, and of its LAC.
    length_so_far
        Bytes of all entries up to it.

    """

    code: int
    entry: int = -1
    last_confirmed: int = -1
    length_so_far: int = 0

    @property
    def is_there(self) -> bool:
        """Whether the bookie has the entry, and its digest is right."""
        return self.code == ReplyCode.OK

    @property
    def is_answer(self) -> bool:
        """Whether the bookie answered: with the entry, or that it does not have it."""
        return self.code in {ReplyCode.OK, ReplyCode.NO_ENTRY, ReplyCode.NO_LEDGER}


def ask_each(pool: BookiePool, asked: Sequence[Asked], traffic: Traffic) -> list[Reported]:
    """Return each bookie's reply, in the order of ``asked``; raises no errors for bookies that are away.

    Asks a bookie again that is too busy, or that hung up on an idle connection.
    """
    with Leases(pool) as leases:
        asking = _Asking(leases, asked, traffic)
        left = asking.ask(range(len(asked)))
        for pause_s in _PAUSES_S:
            if not left:
                break
            if any(asking.reported[number].code == ReplyCode.TOO_MANY_REQUESTS for number in left):
                time.sleep(pause_s)
            left = asking.ask(left)
    return asking.reported


class _Asking:
    """One call of `ask_each`: its requests, and the replies so far."""

    __slots__ = ("_asked", "_leases", "_silent", "_traffic", "reported")

    def __init__(self, leases: Leases, asked: Sequence[Asked], traffic: Traffic) -> None:
        self._leases = leases
        self._asked = asked
        self._traffic = traffic
        self._silent: set[str] = set()
        self.reported = [Reported(UNREACHABLE)] * len(asked)

    def ask(self, numbers: Sequence[int]) -> list[int]:
        """Send some of the requests, and return those to retry."""
        by_bookie: dict[str, list[int]] = {}
        for number in numbers:
            by_bookie.setdefault(self._asked[number].bookie, []).append(number)
        again = set()
        for low in range(0, max(map(len, by_bookie.values()), default=0), _TOGETHER):
            parts = {bookie: all_of[low : low + _TOGETHER] for bookie, all_of in by_bookie.items()}
            sent = {bookie: part for bookie, part in parts.items() if part and bookie not in self._silent}
            for bookie, part in sent.items():
                self._send(bookie, part)
            for bookie, part in sent.items():
                if not self._take(bookie, part):
                    again.update(part)
        again |= {number for number in numbers if self.reported[number].code == ReplyCode.TOO_MANY_REQUESTS}
        return sorted(again)

    def _send(self, bookie: str, numbers: Sequence[int]) -> None:
        each = (self._asked[number] for number in numbers)
        requests = b"".join(read_requests(one.node.ledger_id, np.array([one.entry])) for one in each)
        self._traffic.count(requests=1)
        with suppress(StoreUnreachableError):  # `_take` notices that, too
            self._leases.of(bookie).send(requests, len(numbers))

    def _take(self, bookie: str, numbers: Sequence[int]) -> bool:
        """Read the replies of one bookie; return False to ask it again. A bookie that fails gets no more requests: each could time out."""
        connection = self._leases.get(bookie)
        waiting: dict[tuple[int, int], list[int]] = {}
        for number in numbers:
            one = self._asked[number]
            waiting.setdefault((one.node.ledger_id, one.entry), []).append(number)
        while waiting:
            try:
                if connection is None or connection.outstanding <= 0:
                    raise CorruptReplyError(
                        "the bookie sent a reply to a request that ledgerfs did not send", key=bookie
                    )
                received = connection.receive(len(waiting))
            except (StoreUnreachableError, CorruptReplyError):
                self._leases.drop(bookie)
                if connection is not None and connection.is_used:
                    # The bookie may have been stopped and started since.
                    return False
                self._silent.add(bookie)
                return True
            self._traffic.count(bytes_received=received.replies.position)
            replies = received.replies
            for row, key in enumerate(zip(replies.ledgers.tolist(), replies.entries.tolist(), strict=True)):
                for number in waiting.pop(key, ()):
                    self.reported[number] = _reported(received, row, self._asked[number])
        return True


def _reported(received: "Received", row: int, asked: Asked) -> Reported:
    code = int(received.replies.codes[row])
    if code != ReplyCode.OK:
        return Reported(code)
    place = slice(row, row + 1)
    starts, sizes = received.replies.starts[place], received.replies.sizes[place]
    checked = check_entries(
        received.buffer, starts, sizes, asked.node.ledger_id, np.array([asked.entry]), asked.node.digest
    )
    if not checked.are_sound:
        return Reported(WRONG_BYTES)
    return Reported(code, int(checked.ids[0]), int(checked.last_confirmed[0]), int(checked.lengths_so_far[0]))


class LedgerEnd(NamedTuple):
    """The last readable entry of a ledger, -1 for none; bytes of all entries up to it; and the newest entry that any bookie has."""

    last_entry: int
    length: int
    newest: int


def ends_of(
    pool: BookiePool, nodes: Sequence[LedgerNode], traffic: Traffic, *, acknowledged: bool
) -> list[LedgerEnd | LedgerfsError]:
    """Return the end of each ledger, or the error: too few bookies answer (`StoreUnreachableError`), or they refuse access.

    ``nodes`` are of ledgers that are not closed. With ``acknowledged``, entries after the LAC also count if the ack quorum of bookies has
    them.
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


def _confirmed(node: LedgerNode, reported: dict[str, Reported]) -> LedgerEnd | LedgerfsError:
    """Return the end by the replies of the last ensemble's bookies, without its length."""
    if not node.is_covered_without([bookie for bookie, one in reported.items() if not one.is_answer]):
        refusals = [Refusal(bookie, one.code) for bookie, one in reported.items() if not one.is_answer]
        return refusal_error(node.ledger_id, "the last entry id", refusals)
    there = [one for one in reported.values() if one.is_there]
    # A new ensemble begins after the entries that were confirmed when it was created.
    confirmed = max([node.ensembles[-1].first_entry - 1, *(one.last_confirmed for one in there)])
    return LedgerEnd(confirmed, 0, max([confirmed, *(one.entry for one in there)]))


def _acknowledged(pool: BookiePool, node: LedgerNode, end: LedgerEnd, traffic: Traffic) -> LedgerEnd | LedgerfsError:
    """Return the end after all entries behind the LAC, without a gap, that enough bookies have.

    A silent bookie counts as a copy if another bookie has the entry. An entry that only silent bookies may have is an error: without it the
    ledger would be shorter than a moment ago.
    """
    while end.last_entry < end.newest:
        entries = range(end.last_entry + 1, min(end.newest, end.last_entry + _BEHIND_TOGETHER) + 1)
        asked = [Asked(node, entry, bookie) for entry in entries for bookie in node.bookies_of(entry)]
        reported = ask_each(pool, asked, traffic)
        for row, entry in enumerate(entries):
            copies = reported[row * node.write_quorum : (row + 1) * node.write_quorum]
            there = sum(one.is_there for one in copies)
            if there + sum(not one.is_answer for one in copies) < node.ack_quorum:
                return end
            # One copy is enough while bookies with others may be away: a recovery would keep the entry, too.
            if not there:
                bookies = zip(node.bookies_of(entry), copies, strict=True)
                refusals = [Refusal(bookie, one.code) for bookie, one in bookies if not one.is_answer]
                return refusal_error(
                    node.ledger_id, f"entry {entry}, which is after the last confirmed entry (LAC)", refusals
                )
            end = end._replace(last_entry=entry)
    return end


def _with_lengths(
    pool: BookiePool, nodes: Sequence[LedgerNode], ends: list[LedgerEnd | LedgerfsError], traffic: Traffic
) -> list[LedgerEnd | LedgerfsError]:
    """Set the lengths, which the last entries contain; ask their replicas in turn."""
    ends = list(ends)
    left = [i for i, end in enumerate(ends) if isinstance(end, LedgerEnd) and end.last_entry >= 0]
    refusals: dict[int, list[Refusal]] = {i: [] for i in left}
    for replica in range(max((nodes[i].write_quorum for i in left), default=0)):
        asked = {i: _replica(nodes[i], ends[i], replica) for i in left if replica < nodes[i].write_quorum}
        for (i, one), reported in zip(asked.items(), ask_each(pool, list(asked.values()), traffic), strict=True):
            end = ends[i]
            if reported.is_there and isinstance(end, LedgerEnd):
                ends[i] = end._replace(length=reported.length_so_far)
                left.remove(i)
            else:
                refusals[i].append(Refusal(one.bookie, reported.code))
    for i in left:
        ends[i] = refusal_error(nodes[i].ledger_id, "the last confirmed entry (LAC)", refusals[i])
    return ends


def _replica(node: LedgerNode, end: LedgerEnd | LedgerfsError, replica: int) -> Asked:
    entry = end.last_entry if isinstance(end, LedgerEnd) else 0
    return Asked(node, entry, node.bookies_of(entry)[replica])
