"""What brokers have to send of a restored topic: all messages of its ledgers in the bucket, except markers and aborted transactions."""

import heapq
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.decompression import Compression
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta
from ledgerfs.scan.reread_damaged import walk_entries
from ledgerfs.scan.topic_entries import Reach, read_entries
from ledgerfs_cluster.recovery.checking.messages import COLUMNS, Message, MessagePlace, messages_in


def expected_messages(
    topic: str, ledgers: Sequence[LedgerReader], hidden: Mapping[int, Int64], ids: Sequence[int]
) -> Iterator[Message]:
    """Yield them in the order of the topic.

    Parameters
    ----------
    topic
        Its name.
    ledgers
        The restored ledgers, ascending by id.
    hidden
        {id of a ledger: ids of entries that brokers must not send}, besides markers.
    ids
        The id by which brokers know each ledger.

    Raises what reading the bucket and decoding its messages raises.
    """
    decoder = TopicDecoder(topic, DecodeOptions(COLUMNS))
    batches = read_entries(ledgers, Reach.of(range(len(ledgers))))
    for place, batch, entries, keep in walk_entries(decoder, ledgers, batches):
        own_id, ledger_id = ledgers[place.number].ref.ledger_id, ids[place.number]
        is_sent = keep & ~np.isin(batch.ids_of(np.arange(len(batch))), hidden.get(own_id, ()))
        is_encrypted = is_sent & (entries[Meta.ENCRYPTION_KEYS] > 0)
        sealed = _encrypted(batch, entries, is_encrypted, ledger_id)
        plain = _decoded(decoder, own_id, batch, entries, is_sent & ~is_encrypted, ledger_id)
        yield from heapq.merge(plain, sealed, key=_place)


def _decoded(  # noqa: PLR0917  (what a decoder needs, and the other id)
    decoder: TopicDecoder, own_id: int, batch: EntryBatch, entries: Int64Table, keep: Mask, ledger_id: int
) -> Iterator[Message]:
    for portion in decoder.portions(entries, keep):
        # Decoding changes the table of entries.
        dropped = frozenset(batch.ids_of(np.flatnonzero(portion & _are_dropped(entries))).tolist())
        for message in messages_in(decoder.decode(batch, own_id, entries, portion), ledger_id):
            yield message._replace(is_dropped=True) if message.place.entry_id in dropped else message


def _encrypted(batch: EntryBatch, entries: Int64Table, keep: Mask, ledger_id: int) -> Iterator[Message]:
    """Yield entries as they are handed on to clients that have no key: a batch is one message."""
    for row in np.flatnonzero(keep).tolist():
        start, end = int(entries[Meta.PAYLOAD_AT, row]), int(entries[Meta.PAYLOAD_END, row])
        published = int(entries[Meta.PUBLISH_TIME, row])
        place = MessagePlace(ledger_id, batch.id_of(row))
        yield Message(place, bytes(batch.buffer[start:end]), published, is_encrypted=True)


def _place(message: Message) -> MessagePlace:
    return message.place


def _are_dropped(entries: Int64Table) -> Mask:
    """Return which entries the client drops: it cannot decompress nothing with zlib, which is how Java's and its own producers send it."""
    is_empty = (entries[Meta.COMPRESSION] == Compression.ZLIB) & (entries[Meta.UNCOMPRESSED_SIZE] == 0)
    are_dropped: Mask = is_empty & (entries[Meta.ENCRYPTION_KEYS] == 0)
    return are_dropped
