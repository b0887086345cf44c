"""Asking many bookies for a few entries of many ledgers each: where open ledgers end, and how long they are up to there."""

import time
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ledgerfs.errors import StoreUnreachableError
from ledgerfs.storage.traffic import Traffic
from ledgerfs_cluster.bookies.pool import BookiePool, Leases, leases_of
from ledgerfs_cluster.bookies.window import UNREACHABLE, WRONG_BYTES
from ledgerfs_cluster.errors import CorruptReplyError
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode
from ledgerfs_cluster.formats.bookkeeper.replies import ReplyCode
from ledgerfs_cluster.formats.bookkeeper.requests import read_requests
from ledgerfs_cluster.formats.bookkeeper.stored_entries import check_entries

if TYPE_CHECKING:
    from ledgerfs_cluster.bookies.connection import Received

_TOGETHER = 256
"""Requests that a bookie is sent before its replies are taken."""

_PAUSES_S = (0.1, 0.4, 1.0)
"""Before what is worth another try is asked again."""


class Asked(NamedTuple):
    """An entry of a ledger, or `NEWEST`, and the bookie that is asked for it."""

    node: LedgerNode
    entry: int
    bookie: str


class Told(NamedTuple):
    """What a bookie has of an entry.

    Attributes
    ----------
    code
        A `ReplyCode`, `UNREACHABLE`, or `WRONG_BYTES`; the rest is only known if it is OK.
    entry, last_confirmed
        Ids of the entry, and of the last one that its writer knew to be confirmed.
    length_so_far
        Bytes of all entries up to it.

    """

    code: int
    entry: int = -1
    last_confirmed: int = -1
    length_so_far: int = 0

    @property
    def is_there(self) -> bool:
        """Whether the bookie has it, and its digest is right."""
        return self.code == ReplyCode.OK

    @property
    def is_answer(self) -> bool:
        """Whether the bookie said what it has: the entry, or nothing of it."""
        return self.code in {ReplyCode.OK, ReplyCode.NO_ENTRY, ReplyCode.NO_LEDGER}


def ask_each(pool: BookiePool, asked: Sequence[Asked], traffic: Traffic) -> list[Told]:
    """Return what each bookie told, in the order of ``asked``; raises nothing for bookies that are away.

    A bookie that is too busy, or that hung up on a connection that was kept, is asked again.
    """
    told = [Told(UNREACHABLE)] * len(asked)
    with leases_of(pool) as leases:
        asking = _Asking(leases, asked, told, traffic)
        left = asking.ask(range(len(asked)))
        for pause_s in _PAUSES_S:
            if not left:
                break
            if any(told[number].code == ReplyCode.TOO_MANY_REQUESTS for number in left):
                time.sleep(pause_s)
            left = asking.ask(left)
    return told


class _Asking:
    """One call of `ask_each`: what is asked, and what was told of it so far."""

    __slots__ = ("_asked", "_leases", "_silent", "_told", "_traffic")

    def __init__(
        self,
        leases: Leases,
        asked: Sequence[Asked],
        told: list[Told],
        traffic: Traffic,
    ) -> None:
        self._leases = leases
        self._asked = asked
        self._told = told
        self._traffic = traffic
        self._silent: set[str] = set()

    def ask(self, numbers: Iterable[int]) -> list[int]:
        """Ask for some of it, and return what is worth another try."""
        by_bookie: dict[str, list[int]] = {}
        for number in numbers:
            by_bookie.setdefault(self._asked[number].bookie, []).append(number)
        again: list[int] = []
        for low in range(0, max(map(len, by_bookie.values()), default=0), _TOGETHER):
            parts = {bookie: numbers[low : low + _TOGETHER] for bookie, numbers in by_bookie.items()}
            sent = [bookie for bookie, part in parts.items() if part and self._send(bookie, part)]
            for bookie in sent:
                if not self._take(bookie, parts[bookie]):
                    again += parts[bookie]
        busy = [
            one
            for one in chain.from_iterable(by_bookie.values())
            if self._told[one].code == ReplyCode.TOO_MANY_REQUESTS
        ]
        return sorted({*again, *busy})

    def _send(self, bookie: str, numbers: Sequence[int]) -> bool:
        if bookie in self._silent:
            return False
        each = (self._asked[number] for number in numbers)
        requests = b"".join(read_requests(one.node.ledger_id, np.array([one.entry])) for one in each)
        self._traffic.count(requests=1)
        try:
            self._leases.of(bookie).send(requests, len(numbers))
        except StoreUnreachableError:
            if self._leases.get(bookie) is None:
                self._give_up(bookie)
                return False
            # The connection broke: `_take` finds that out, too.
        return True

    def _take(self, bookie: str, numbers: Sequence[int]) -> bool:
        """Take the answers of one bookie; False if it is to be asked again."""
        connection = self._leases.get(bookie)
        waiting: dict[tuple[int, int], list[int]] = {}
        for number in numbers:
            one = self._asked[number]
            waiting.setdefault((one.node.ledger_id, one.entry), []).append(number)
        while waiting and connection is not None:
            try:
                if connection.outstanding <= 0:
                    raise CorruptReplyError("the bookie answered what it was not asked", key=bookie)
                received = connection.receive(len(waiting))
            except (StoreUnreachableError, CorruptReplyError):
                if connection.is_used:
                    # The bookie may have been stopped and started since.
                    self._leases.drop(bookie)
                    return False
                self._give_up(bookie)
                return True
            self._traffic.count(bytes_received=received.replies.position)
            self._sort(received, waiting)
        return True

    def _sort(self, received: "Received", waiting: dict[tuple[int, int], list[int]]) -> None:
        replies = received.replies
        for row, key in enumerate(zip(replies.ledgers.tolist(), replies.entries.tolist(), strict=True)):
            for number in waiting.pop(key, ()):
                self._told[number] = _told(received, row, self._asked[number])

    def _give_up(self, bookie: str) -> None:
        """Ask a bookie nothing more: each time may take as long as the time-out."""
        self._leases.drop(bookie)
        self._silent.add(bookie)


def _told(received: "Received", row: int, asked: Asked) -> Told:
    code = int(received.replies.codes[row])
    if code != ReplyCode.OK:
        return Told(code)
    place = slice(row, row + 1)
    starts, sizes = received.replies.starts[place], received.replies.sizes[place]
    checked = check_entries(
        received.buffer, starts, sizes, asked.node.ledger_id, np.array([asked.entry]), asked.node.digest
    )
    if not checked.are_sound:
        return Told(WRONG_BYTES)
    return Told(code, int(checked.ids[0]), int(checked.last_confirmed[0]), int(checked.lengths_so_far[0]))
