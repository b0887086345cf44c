"""Asking many bookies for a few entries of many ledgers each: where open ledgers end, and how long they are up to there."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ledgerfs.dialects.live_cluster.bookies.pool import BookiePool, Leases, leases_of
from ledgerfs.dialects.live_cluster.bookies.window import UNREACHABLE, WRONG_BYTES
from ledgerfs.errors import CorruptReplyError, StoreUnreachableError
from ledgerfs.formats.bookkeeper.ledger_nodes import LedgerNode
from ledgerfs.formats.bookkeeper.replies import ReplyCode
from ledgerfs.formats.bookkeeper.requests import read_requests
from ledgerfs.formats.bookkeeper.stored_entries import check_entries
from ledgerfs.storage.traffic import Traffic

if TYPE_CHECKING:
    from ledgerfs.dialects.live_cluster.bookies.connection import Received

_TOGETHER = 256
"""Requests that a bookie is sent before its replies are taken."""


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
    """Return what each bookie told, in the order of ``asked``, which names nothing twice; raises nothing for bookies that are away."""
    told = [Told(UNREACHABLE)] * len(asked)
    by_bookie: dict[str, list[int]] = {}
    for number, one in enumerate(asked):
        by_bookie.setdefault(one.bookie, []).append(number)
    with leases_of(pool) as leases:
        for low in range(0, max(map(len, by_bookie.values()), default=0), _TOGETHER):
            sent = {}
            for bookie, numbers in by_bookie.items():
                part = numbers[low : low + _TOGETHER]
                if part and _send(leases, bookie, [asked[number] for number in part], traffic):
                    sent[bookie] = {(asked[number].node.ledger_id, asked[number].entry): number for number in part}
            for bookie, waiting in sent.items():
                for number, answer in _answers(leases, bookie, waiting, asked, traffic):
                    told[number] = answer
    return told


def _send(leases: Leases, bookie: str, asked: Sequence[Asked], traffic: Traffic) -> bool:
    requests = b"".join(read_requests(one.node.ledger_id, np.array([one.entry])) for one in asked)
    traffic.count(requests=1)
    try:
        leases.of(bookie).send(requests, len(asked))
    except StoreUnreachableError:
        leases.drop(bookie)
        return False
    return True


def _answers(
    leases: Leases, bookie: str, waiting: dict[tuple[int, int], int], asked: Sequence[Asked], traffic: Traffic
) -> Iterator[tuple[int, Told]]:
    """Yield the answers of one bookie, as (number of what was asked, answer); fewer if it fails on the way."""
    connection = leases.get(bookie)
    while waiting and connection is not None:
        try:
            if connection.outstanding <= 0:
                raise StoreUnreachableError("the bookie answered what it was not asked", key=bookie)
            received = connection.receive(len(waiting))
        except (StoreUnreachableError, CorruptReplyError):
            leases.drop(bookie)
            return
        traffic.count(bytes_received=received.replies.position)
        replies = received.replies
        for row, key in enumerate(zip(replies.ledgers.tolist(), replies.entries.tolist(), strict=True)):
            number = waiting.pop(key, None)
            if number is not None:
                yield number, _told(received, row, asked[number])


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
