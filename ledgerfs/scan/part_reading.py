"""Read a topic, a partition, or a part of one, as batches of the message table.

Ledgers are read in the order of the topic and entries in the order of the ledger, so messages are as well. Entries that Pulsar's readers
skip (markers, messages of transactions that were not committed) are left out unless they are requested.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pyarrow as pa

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.ledger_times import LedgerTimes, TimeRange
from ledgerfs.catalog.missing_ledgers import MissingLedger
from ledgerfs.catalog.reader import LedgerReader, OnRead
from ledgerfs.catalog.row_dependencies import Basis, Unsettled
from ledgerfs.formats.array_types import Mask
from ledgerfs.formats.records import EntryBatch
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.messages.decode.chunks import Incomplete
from ledgerfs.messages.decode.entries import DecodeOptions, Skipped, TopicDecoder
from ledgerfs.messages.decode.entry_fields import rows_in_transactions
from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta
from ledgerfs.messages.decode.payloads import Decrypt
from ledgerfs.messages.decode.undecodable import Undecodable, add_undecodable
from ledgerfs.scan.earlier_chunks import EarlierChunks
from ledgerfs.scan.options import ScanOptions
from ledgerfs.scan.report import ScanReport
from ledgerfs.scan.reread_damaged import walk_entries
from ledgerfs.scan.time_pruning import Pruned, TimePruning
from ledgerfs.scan.topic_entries import Place, Reach, read_entries
from ledgerfs.scan.transaction_outcomes import Known, TransactionOutcomes
from ledgerfs.scan.where_bounds import Bounds
from ledgerfs.storage.ordered_map import ordered_map

_AHEAD = 2
"""Portions per thread that are decoded, or wait for that."""

_QUICK = 64 << 10
"""Bytes of a portion up to which decoding takes less time than handing it to another thread."""

_LARGE = 16 << 20
"""Bytes of a portion that is decoded alone: of a large message, since several would need too much memory."""


@dataclass(frozen=True, slots=True)
class TopicPart:
    """A topic, or a partition, and the entries of it to read.

    Attributes
    ----------
    topic
        Its name.
    ledgers, reach
        All its ledgers, and the entries of them to read, None for all. Others are read only for the messages of these: for earlier parts of
        chunked messages, and later outcomes of transactions. A chunked message belongs to its last part, so parts of a topic that do not
        overlap never contain the same message.
    missing
        Its unreadable ledgers.
    skips_refused
        Whether to skip and report ledgers for which the store refuses access (``on_unreadable="skip"``).
    limits
        Limits of the publish times of each ledger; None to find them from the ledgers when needed.
    outcomes
        Outcomes of transactions that earlier reads of the same ledgers found; each read adds its own.

    """

    topic: str
    ledgers: Sequence[LedgerReader]
    missing: Sequence[MissingLedger] = ()
    reach: Reach | None = None
    skips_refused: bool = False
    limits: LedgerTimes | None = field(default=None, repr=False)
    outcomes: Known = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, managed_ledger: str | None, ledgers: Sequence[LedgerReader], catalog: Catalog) -> Self:
        """Return a topic from a catalog; ``ledgers`` are its readable ones."""
        missing = catalog.missing_of(managed_ledger)
        return cls(topic_of(managed_ledger), ledgers, missing, skips_refused=catalog.skips_refused)


@dataclass(frozen=True, slots=True)
class _Decoded:
    """Messages of some entries, and reports of skipped entries before them and among them."""

    rows: pa.RecordBatch | None
    skipped: Sequence[Skipped] = ()
    incomplete: Sequence[Incomplete] = ()
    undecodable: Sequence[Undecodable] = ()


_Job = _Decoded | Callable[[], _Decoded]
"""Messages, or a function that decodes them in any thread."""


class PartReading:
    """One read of a part.

    Parameters
    ----------
    The options of the scan, and the columns of the message table to read.
        Those of the scan, and the columns of the message table to read.
    A range of ids; other ledgers have no requested rows.
        A range of ids; other ledgers have no wanted rows.
    report
        The read adds skipped entries to it.
    on_read
        Called with the bytes of entries as they are read, to show progress.

    """

    def __init__(
        self,
        part: TopicPart,
        options: ScanOptions,
        columns: Sequence[str],
        report: ScanReport,
        *,
        decrypt: Decrypt | None = None,
        ledger_ids: Bounds = Bounds(),  # noqa: B008  (frozen)
        on_read: OnRead | None = None,
    ) -> None:
        self._part = part
        self._options = options
        self._report = report
        self._ledger_ids = ledger_ids
        self._on_read = on_read
        self._skips = options.on_corrupt == "skip"
        self._outcomes = TransactionOutcomes(part.ledgers, part.outcomes, is_damage_skipped=self._skips)
        self._decoder = TopicDecoder(part.topic, decode_options(options, columns), decrypt, self._outcomes.state_of)
        # States of transactions are cached for the entries of the last walk only, and decryptors cache keys.
        self._lacks_chunks = False
        self._is_serial = decrypt is not None or "txn_state" in columns

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        threads = self._options.threads or 1
        pruned = self._pruned()
        jobs = self._jobs(pruned)
        found = map(_done, jobs) if threads == 1 else ordered_map(
            _done, jobs, threads, "ledgerfs-decode", ahead=_AHEAD, is_quick=lambda job: isinstance(job, _Decoded)
        )  # fmt: skip
        for one in found:
            self._add(one)
            if one.rows is not None and one.rows.num_rows:
                yield one.rows

    def _add(self, decoded: _Decoded) -> None:
        self._report.skipped += decoded.skipped
        self._report.incomplete += decoded.incomplete
        for one in decoded.undecodable:
            add_undecodable(self._report.undecodable, one)

    def _jobs(self, pruned: Pruned) -> Iterator[_Job]:
        """Yield the jobs of decoding, in order; each has some rows."""
        decoder, outcomes, ledgers = self._decoder, self._outcomes, self._part.ledgers
        start, stop = pruned.reach
        decoder.chunks.earlier = EarlierChunks(ledgers, start, decoder)
        skipped = decoder.skipped if self._skips else None
        refused = decoder.skipped if self._part.skips_refused else None
        for place, batch, entries, keep in walk_entries(
            decoder, ledgers, read_entries(ledgers, pruned.reach, skipped, refused)
        ):
            is_end = self._leave_out_transactions(place, batch, entries, keep)
            if decoder.skipped:
                yield self._taken()
            for portion in decoder.portions(entries, keep):
                yield self._job(batch, ledgers[place.number].ref.ledger_id, entries, portion)
            if self._on_read is not None:
                self._on_read(int(batch.lengths.sum()))
            if is_end:
                break
        awaits_parts = stop.number == len(ledgers) and self._gives_up()
        yield self._taken()
        met = Unsettled(
            outcomes.any_open, self._lacks_chunks or decoder.chunks.ended_before,
            awaits_parts, decoder.chunks.joined_since, outcomes.across, pruned.is_by_others,
        )  # fmt: skip
        self._report.bases.append(self._basis(met, outcomes.sources))

    def _job(self, batch: EntryBatch, ledger_id: int, entries: Int64Table, keep: Mask) -> _Job:
        """Return the job of decoding some entries; a finished one for few entries, and for those that depend on others."""
        decoder, size = self._decoder, _size_of(entries, keep)
        if self._is_serial or not _QUICK < size <= _LARGE or (entries[Meta.CHUNKS][keep] > 1).any():
            return self._taken(decoder.decode(batch, ledger_id, entries, keep))

        def decode() -> _Decoded:
            own = replace(decoder, skipped=[], undecodable=[])
            rows = own.decode(batch, ledger_id, entries, keep)
            return _Decoded(rows, own.skipped, (), own.undecodable)

        return decode

    def _taken(self, rows: pa.RecordBatch | None = None) -> _Decoded:
        """Return some rows, and the decoder's reports so far."""
        decoder, incomplete = self._decoder, self._decoder.chunks.incomplete
        done = _Decoded(rows, decoder.skipped[:], incomplete[:], decoder.undecodable[:])
        self._lacks_chunks |= bool(incomplete)
        for found in (decoder.skipped, incomplete, decoder.undecodable):
            found.clear()
        return done

    def _gives_up(self) -> bool:
        """Finish reading at the end of the topic; return whether a chunked message was waiting for parts."""
        before = len(self._decoder.chunks.incomplete)
        return len(self._decoder.chunks.finish()) > before

    def _leave_out_transactions(self, place: Place, batch: EntryBatch, entries: Int64Table, keep: Mask) -> bool:
        """Keep only the messages of requested transactions; return whether the first open one stops the reading."""
        transactions, outcomes = self._options.transactions, self._outcomes
        rows = rows_in_transactions(entries, keep)
        if not rows.size or (transactions == "all" and "txn_state" not in self._decoder.schema.names):
            return False
        outcomes.look_ahead(place, batch, entries, rows)
        if transactions != "all":
            keep[rows] = outcomes.are_visible(place, batch, entries, rows)
        end = outcomes.first_open(place, batch, entries, rows) if transactions == "readable" else None
        if end is not None:
            keep[end:] = False
        return end is not None

    def _pruned(self) -> Pruned:
        """Return the entries to read."""
        part, options = self._part, self._options
        wanted = Reach.of(range(len(part.ledgers))) if part.reach is None else part.reach
        narrowed = self._with_ids(wanted)
        found = TimePruning(part.ledgers, narrowed, times_of(options), part.limits, options.check_checksums).pruned()
        # An open transaction before the range of time stops readable messages, too.
        return (
            replace(found, reach=Reach(wanted.start, found.reach.stop)) if options.transactions == "readable" else found
        )

    def _with_ids(self, reach: Reach) -> Reach:
        """Return the entries of ledgers in the range of ids."""
        first, end = self._ledger_ids.start, self._ledger_ids.end
        if first is None and end is None:
            return reach
        ids = [(number, self._part.ledgers[number].ref.ledger_id) for number in reach.ledgers]
        kept = [number for number, one in ids if (first is None or one >= first) and (end is None or one < end)]
        if not kept:
            return Reach(reach.start, reach.start)
        return Reach(max(reach.start, Place(kept[0], 0)), min(reach.stop, Place(kept[-1] + 1, 0)))

    def _basis(self, found: Unsettled, marked_by: set[int]) -> Basis:
        """Return the ledgers that the rows depend on, by the results of reading them."""
        ledgers, reach = self._part.ledgers, self._part.reach
        numbers = range(len(ledgers)) if reach is None else reach.ledgers
        if not numbers:
            return Basis()
        own = [ledgers[number].ref.ledger_id for number in numbers]
        joined = set(self._joined_ids(numbers[-1], found.joined_since))
        if joined.issubset(own) and joined and len(joined) == own[-1] - min(joined) + 1:
            # No id lies between theirs for another ledger.
            found = replace(found, joined_since=None)
        sources = marked_by | joined
        before = ledgers[numbers[0] - 1].ref.ledger_id if found.open_transactions and numbers[0] else 0
        return Basis.of((before, own[0], own[-1]), found, sorted(sources - set(own)))

    def _joined_ids(self, number: int, since: int | None) -> Iterator[int]:
        """Yield the ids of the ledgers that messages were joined from, the last ones first."""
        while since is not None and number >= 0 and (one := self._part.ledgers[number].ref.ledger_id) >= since:
            yield one
            number -= 1


def _done(job: _Job) -> _Decoded:
    return job if isinstance(job, _Decoded) else job()


def _size_of(entries: Int64Table, keep: Mask) -> int:
    """Return about how many bytes the messages of some entries have, by the sizes in their metadata."""
    stored = entries[Meta.PAYLOAD_END] - entries[Meta.PAYLOAD_AT]
    return int(np.where(entries[Meta.COMPRESSION] == 0, stored, entries[Meta.UNCOMPRESSED_SIZE])[keep].sum())


def times_of(options: ScanOptions) -> TimeRange:
    """Return the range of publish times to read."""
    return TimeRange(options.start_ms, options.end_ms, options.clock_slack_ms)


def decode_options(options: ScanOptions, columns: Sequence[str]) -> DecodeOptions:
    """Return the options of a decoder of some columns."""
    return DecodeOptions(
        columns, options.start_ms, options.end_ms, options.include_markers, options.check_checksums,
        options.max_message_bytes, options.on_encrypted, options.on_corrupt,
    )  # fmt: skip


def decrypt_with(options: ScanOptions) -> Decrypt | None:
    """Return the decryption of payloads; None without private keys."""
    if options.private_keys is None:
        return None
    # This imports cryptography, an extra that only encrypted topics need.
    from ledgerfs.messages.decode.decryption import Decryptor, EncryptedDataKey, PrivateKeys

    decryptor = Decryptor(PrivateKeys.of(options.private_keys))
    return lambda keys, iv, payload: decryptor.decrypt([EncryptedDataKey(*key) for key in keys], iv, payload)
