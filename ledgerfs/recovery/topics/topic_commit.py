"""One topic as one commit: its list of ledgers, its subscriptions, and the note that it was restored. All of it is made, or nothing."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ledgerfs.errors import ListFullError
from ledgerfs.formats.decompression import Compression
from ledgerfs.formats.managed_ledgers.list_changes import EditedList
from ledgerfs.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    OffloadContext,
    build_managed_ledger_info,
)
from ledgerfs.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.offload.list_bytes import fits, stored
from ledgerfs.offload.offload_driver import OffloadDriver
from ledgerfs.recovery.planning.topic_plan import TopicPlan
from ledgerfs.recovery.topics.journal import Note, note_path
from ledgerfs.recovery.topics.positions import Positions
from ledgerfs.storage.zookeeper.changes import MakeNode, Operation, SetNode
from ledgerfs.storage.zookeeper.node import Node

_PLAIN_BYTES = 200_000
"""Larger values are compressed: brokers read both, whatever they write."""


@dataclass(frozen=True, slots=True)
class TopicToMake:
    """All that a commit is made from.

    Attributes
    ----------
    ledgers
        Of each ledger its id in the lost cluster, and what is restored of it: the same, or one with another id.
    extra_id
        The id of a ledger that BookKeeper does not have, and never will. A broker that loads the topic forgets the last ledger of the list
        if BookKeeper does not know it, so that must be none of ours. All topics have the same one.
    cursors
        {name: value of the node}.
    left_out, open_as
        As the note has them.

    """

    plan: TopicPlan
    ledgers: Sequence[tuple[int, LedgerRef]]
    extra_id: int
    cursors: Mapping[str, bytes]
    driver: OffloadDriver
    bucket: str
    left_out: int
    open_as: str | None

    def operations(self, noted: Node | None) -> list[Operation]:
        """Return the commit; ``noted`` is the note of a topic of this name that is there no more, if there is one.

        Raises `ListFullError` for more than a ZooKeeper takes at once.
        """
        target, now = self.plan.target, time.time_ns() // 1_000_000
        path = managed_ledger_path(target)
        entries = sum(ref.entries for _, ref in self.ledgers)
        has_new_ids = any(old != ref.ledger_id for old, ref in self.ledgers)
        note = Note(
            self.plan.source,
            self.bucket,
            len(self.ledgers),
            entries,
            len(self.cursors),
            now,
            self.extra_id,
            self.left_out,
            has_new_ids,
            self.open_as,
        )
        written = MakeNode(note_path(target), note.build()) if noted is None else SetNode.of(noted, note.build())
        made: list[Operation] = [MakeNode(path, _value(self._list(now), path))]
        for name, data in self.cursors.items():
            cursor = cursor_path(target, name)
            made.append(MakeNode(cursor, _value(data, cursor)))
        made.append(written)
        if not fits(made):
            raise ListFullError("its list and its subscriptions are more than a ZooKeeper takes at once", key=path)
        return made

    def _list(self, now_ms: int) -> bytes:
        closed = self.plan.former.closed_ms
        ledgers = [
            LedgerInfo(
                ref.ledger_id,
                ref.last_entry + 1,
                ref.length,
                # As the lost cluster had it: retention by age goes on as it was. What is not known is rather too young.
                closed.get(old) or ref.changed_ms or now_ms,
                OffloadContext(
                    ref.uuid,
                    is_complete=True,
                    is_deleted_from_bookkeeper=True,
                    offloaded_ms=now_ms,
                    driver=self.driver.name,
                    properties=self.driver.properties,
                ),
            )
            for old, ref in self.ledgers
        ]
        ledgers.append(LedgerInfo(self.extra_id, 0, 0, 0))
        # Never terminated: of a list without a ledger that BookKeeper has, brokers then know no last message (seen with Pulsar 4.0.7).
        return build_managed_ledger_info(ManagedLedgerInfo(tuple(ledgers), None, self.plan.former.properties))


def positions_of(plan: TopicPlan, ledgers: Sequence[tuple[int, LedgerRef]], extra_id: int) -> Positions:
    """Return where positions of the lost cluster are among these ledgers."""
    return Positions([(old, ref.ledger_id, ref.last_entry + 1) for old, ref in ledgers], extra_id, plan.renumbered)


def _value(plain: bytes, path: str) -> bytes:
    codec = Compression.NONE if len(plain) <= _PLAIN_BYTES else Compression.ZSTD
    return stored(EditedList(plain, codec), key=path)
