"""Test readers: every way of reading returns the written entries, for any range of any ledger."""

import json
import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader, Span
from ledgerfs.errors import EntryRangeError
from ledgerfs.formats.records import EntryBatch
from ledgerfs.scan.options import ScanOptions
from ledgerfs.scan.part_reading import TopicPart
from ledgerfs.scan.scan import make_scan
from ledgerfs.testing.layouts.opened import OpenedBucket, all_of, entries_of, ranges_of, record_of
from ledgerfs.testing.layouts.sample import KnownLedger, SampleBucket


class EntriesTests:
    """Tests of `LedgerReader` with sound ledgers."""

    def test_every_entry_is_what_was_written(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        for ledger, reader in opened(sample, whole):
            assert (reader.first_entry, reader.last_entry) == (ledger.first_entry, ledger.last_entry)
            assert reader.length in {-1, sum(map(len, ledger.entries))}
            assert all_of(reader) == ledger.part(ledger.first_entry, ledger.last_entry), ledger.name

    def test_any_range_is_that_part_of_the_whole(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        for ledger, reader in opened(sample, whole):
            for first, last in ranges_of(ledger.first_entry, ledger.last_entry, reader.cuts().tolist()[:4]):
                wanted = ledger.part(first, last)
                assert [(entry.id, bytes(entry.data)) for entry in reader.read(first, last)] == wanted
                assert entries_of(reader, first, last) == wanted
                streamed = reader.stream([Span(reader, first, last)])
                assert [(entry, bytes(data)) for _, batch in streamed for entry, data in batch] == wanted

    def test_entries_that_are_not_there_are_refused(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        ledger, reader = next(opened(sample, whole))
        first, last = ledger.first_entry, ledger.last_entry
        for one in ((first - 1, first), (last, last + 1), (last + 1, last + 1), (last + 1, last), (first, 2**63 - 1)):
            with pytest.raises(EntryRangeError) as caught:
                reader.read(*one)
            assert caught.value.key == reader.ref.key
            with pytest.raises(EntryRangeError):
                entries_of(reader, *one)

    def test_cuts_are_entries_where_reading_can_begin(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        for ledger, reader in opened(sample, whole):
            cuts = reader.cuts()
            assert cuts.dtype == np.int64
            assert cuts[0] == ledger.first_entry
            assert (np.diff(cuts) > 0).all()
            assert cuts[-1] <= ledger.last_entry
            assert len(cuts) == reader.ref.cuts
            behind = [*(cuts[1:] - 1).tolist(), ledger.last_entry]
            pieces = [entries_of(reader, *one) for one in zip(cuts.tolist(), behind, strict=True)]
            assert [entry for piece in pieces for entry in piece] == ledger.part(ledger.first_entry, ledger.last_entry)

    def test_a_glance_is_the_front_of_an_entry(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        for ledger, reader in opened(sample, whole):
            for cut in reader.cuts().tolist()[:5]:
                entry = ledger.entries[cut - ledger.first_entry]
                for size in (1, 20, 1 << 20):
                    front, whole_size = reader.glance(cut, size)
                    assert whole_size == len(entry)
                    assert bytes(front[:size]) == entry[:size], (ledger.name, cut, size)

    def test_batches_tell_ids_and_places(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        for ledger, reader in opened(sample, whole):
            expected = ledger.first_entry
            for batch in reader.batches(ledger.first_entry, ledger.last_entry):
                assert len(batch) == len(batch.lengths) > 0
                assert batch.first_entry == expected
                ids = batch.ids_of(np.arange(len(batch)))
                assert ids.tolist() == list(range(expected, expected + len(batch)))
                assert (batch.offsets >= 0).all()
                assert (batch.offsets + batch.lengths <= len(batch.buffer)).all()
                assert batch.last_entry == ids[-1]
                expected += len(batch)
                assert bytes(batch.records()) == records_of(ledger, int(ids[0]), int(ids[-1]))
            assert expected == ledger.last_entry + 1

    def test_ledgers_are_streamed_one_after_the_other(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        pairs = list(opened(sample, whole))
        assert len({pair[1].stream for pair in pairs}) == 1
        spans = [Span(reader, ledger.first_entry, ledger.last_entry) for ledger, reader in pairs]
        ledger, reader = pairs[0]
        spans += [Span(reader, ledger.last_entry, ledger.last_entry), spans[0]]
        owners = [*(pair[0] for pair in pairs), ledger, ledger]
        found: list[tuple[int, int, bytes]] = []
        for number, batch in reader.stream(spans):
            found += [(number, entry, bytes(data)) for entry, data in batch]
        wanted = [
            (number, *one)
            for number, (owner, span) in enumerate(zip(owners, spans, strict=True))
            for one in owner.part(span.first, span.last)
        ]
        assert [one[:2] for one in found] == [one[:2] for one in wanted]
        assert found == wanted
        assert list(reader.stream([])) == []

    def test_a_stream_that_is_left_harms_no_other(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        (ledger, reader), *rest = opened(sample, whole)
        spans = [Span(one, known.first_entry, known.last_entry) for known, one in [(ledger, reader), *rest]]
        for _ in range(3):
            stream = iter(reader.stream(spans))
            next(stream)
            del stream
            batches = reader.batches(ledger.first_entry, ledger.last_entry)
            next(batches)
            del batches
        assert all_of(reader) == ledger.part(ledger.first_entry, ledger.last_entry)

    def test_readers_side_by_side_do_not_meet(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        for ledger, reader in list(opened(sample, whole))[:5]:
            other = whole.reader(reader.ref)
            streams = [one.batches(ledger.first_entry, ledger.last_entry) for one in (reader, other, reader)]
            found: list[list[tuple[int, bytes]]] = [[], [], []]
            while any([take(stream, into) for stream, into in zip(streams, found, strict=True)]):  # noqa: C419  (no short circuit)
                pass
            assert found == [ledger.part(ledger.first_entry, ledger.last_entry)] * 3

    def test_threads_share_a_reader(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        pairs = list(opened(sample, whole))[:4]

        def is_right(number: int) -> bool:
            ledger, reader = pairs[number % len(pairs)]
            first = ledger.first_entry + number * 7919 % len(ledger.entries)
            last = min(first + 50, ledger.last_entry)
            return entries_of(reader, first, last) == ledger.part(first, last)

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(is_right, range(64)))

    def test_readers_and_what_they_read_pickle(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        for ledger, reader in list(opened(sample, whole))[:5]:
            for _ in range(2):
                again: LedgerReader = pickle.loads(pickle.dumps(reader))
                assert again.ref == reader.ref
                assert entries_of(again, ledger.last_entry, ledger.last_entry) == ledger.part(*[ledger.last_entry] * 2)
                all_of(reader)
            ref: LedgerRef = pickle.loads(pickle.dumps(reader.ref))
            assert all_of(whole.reader(ref)) == ledger.part(ledger.first_entry, ledger.last_entry)

    def test_rereading_gives_the_same(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        for ledger, reader in list(opened(sample, whole))[:5]:
            for _ in range(2):
                reader.reread()
                assert all_of(reader) == ledger.part(ledger.first_entry, ledger.last_entry)

    def test_records_are_the_file_of_entries(self, sample: SampleBucket, whole: OpenedBucket, tmp_path: Path) -> None:
        for ledger, reader in opened(sample, whole):
            expected = records_of(ledger, ledger.first_entry, ledger.last_entry)
            assert reader.records_size == len(expected) or reader.length < 0
            file = reader.records()
            if file is None:
                continue
            size = len(expected)
            assert file.size == size
            parts = [(0, size), (0, min(5, size)), (size - 1, size), (size // 2, size // 2), (size // 3, size // 2)]
            for start, end in parts:
                assert file.read(start, end) == expected[start:end], (ledger.name, start, end)
            assert file.read_ranges(parts) == [expected[start:end] for start, end in parts]
            buffer = bytearray(size - size // 3)
            file.read_into(size // 3, memoryview(buffer))
            assert buffer == expected[size // 3 :]
            descriptor = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            file.send(1, size, descriptor)
            os.close(descriptor)
            assert (tmp_path / "out").read_bytes() == expected[1:]

    def test_what_is_reported_of_a_ledger_agrees(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        for ledger, reader in opened(sample, whole):
            reported = json.loads(json.dumps(reader.describe()))
            assert (reported["ledger_id"], reported["managed_ledger"]) == (ledger.ledger_id, ledger.managed_ledger)
            assert reported["entries"] == len(ledger.entries)
            metadata = reader.metadata()
            if metadata is not None:
                assert metadata.last_entry == ledger.last_entry
                assert metadata.length == sum(map(len, ledger.entries))
            origin = reader.origin()
            assert origin.block_size is None or origin.block_size > 0
            user = reader.user_metadata()
            assert user is None or all(isinstance(text, str) for text in (*user, *user.values()))
            assert reader.is_remote is whole.store.is_remote

    def test_messages_are_those_that_were_sent(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        for ledger, reader in opened(sample, whole):
            if ledger.values is not None:
                table = make_scan(
                    reader.ref.topic,
                    [TopicPart(reader.ref.topic, [reader])],
                    ScanOptions(columns=["entry_id", "value"]),
                ).to_arrow()
                assert table["value"].to_pylist() == list(ledger.values), ledger.name


def opened(sample: SampleBucket, bucket: OpenedBucket) -> Iterator[tuple[KnownLedger, LedgerReader]]:
    """Yield each ledger with a new reader."""
    readers = bucket.readers()
    return ((ledger, readers[ledger.name]) for ledger in sample.ledgers)


def records_of(ledger: KnownLedger, first: int, last: int) -> bytes:
    """Return entries as records."""
    return b"".join(record_of(*one) for one in ledger.part(first, last))


def take(batches: Iterator[EntryBatch], into: list[tuple[int, bytes]]) -> bool:
    """Append the entries of the next batch; return whether there was one."""
    batch = next(batches, None)
    if batch is not None:
        into += [(entry, bytes(data)) for entry, data in batch]
    return batch is not None
