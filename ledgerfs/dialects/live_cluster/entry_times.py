"""When entries were published, of many ledgers at once: the broker's own time of an entry if it has one, else its publish time."""

from collections.abc import Sequence

import numpy as np

from ledgerfs.dialects.live_cluster.bookies.asking import Asked, ask_each
from ledgerfs.dialects.live_cluster.bookies.pool import BookiePool
from ledgerfs.dialects.live_cluster.bookies.window import Refusal
from ledgerfs.dialects.live_cluster.refusals import refusal_error
from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.bookkeeper.ledger_nodes import LedgerNode
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.decode.metadata_walk import Meta, have_sound_metadata, walk_metadata
from ledgerfs.messages.kernels.wire import ABSENT
from ledgerfs.storage.traffic import Traffic


def times_of(
    pool: BookiePool, asked: Sequence[tuple[LedgerNode, int]], traffic: Traffic
) -> list[int | LedgerfsError | None]:
    """Return the time of each entry, ms since 1970 UTC, None for what is no message; or why no replica has told it.

    Replicas are asked in turn, those of all entries together.
    """
    times: list[int | LedgerfsError | None] = [None] * len(asked)
    left = list(range(len(asked)))
    refusals: dict[int, list[Refusal]] = {i: [] for i in left}
    for replica in range(max((node.write_quorum for node, _ in asked), default=0)):
        trying = [i for i in left if replica < asked[i][0].write_quorum]
        each = [Asked(node, entry, node.bookies_of(entry)[replica]) for node, entry in (asked[i] for i in trying)]
        for i, one, told in zip(trying, each, ask_each(pool, each, traffic, _time_of), strict=True):
            if told.is_there:
                times[i] = told.number
                left.remove(i)
            else:
                refusals[i].append(Refusal(one.bookie, told.code))
    for i in left:
        node, entry = asked[i]
        times[i] = refusal_error(node.ledger_id, f"entry {entry}", refusals[i])
    return times


def _time_of(payload: memoryview) -> int | None:
    batch = EntryBatch(0, payload, np.zeros(1, np.int64), np.array([len(payload)], np.int64))
    table = walk_metadata(batch)
    if table[Meta.BROKER_TIME, 0] != ABSENT:
        return int(table[Meta.BROKER_TIME, 0])
    return int(table[Meta.PUBLISH_TIME, 0]) if have_sound_metadata(table)[0] else None
