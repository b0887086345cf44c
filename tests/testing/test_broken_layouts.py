"""The suite for layouts fails, by the right test, for a layout that breaks one promise, and for none that keeps them all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ledgerfs.catalog.findings import Finding, Severity
from ledgerfs.catalog.layout import FoundLedgers
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import Glance, Span
from ledgerfs.errors import CorruptLedgerError, EntryRangeError, LedgerfsError
from ledgerfs.formats.records import EntryBatch
from ledgerfs.layouts.object_source import open_layouts
from ledgerfs.storage.objects import ObjectStat
from ledgerfs.testing import Damage, KnownLedger, LayoutTests, SampleBucket
from ledgerfs.testing.layouts.opened import OpenedBucket, few_of
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.ledgers import NAME, offload


def made_up() -> SampleBucket:
    """Three ledgers of some blocks each."""
    objects, ledgers = {}, []
    for ledger_id in (1, 2, 3):
        values = [b"%d" % i * (30 + i % 7) for i in range(40)]
        entries = [frame(metadata(sequence_id=i), value) for i, value in enumerate(values)]
        objects |= offload(entries, ledger_id, block_size=900 + 100 * ledger_id, uuid=ledger_id).objects
        ledgers.append(KnownLedger(ledger_id, NAME, entries, values=values))
    key = next(iter(objects))
    half = {key: objects[key][:1000]}
    return SampleBucket(objects, ledgers, [Damage("half the data", ledgers[0].name, half, frozenset({"short-object"}))])


class Broken:
    """A layout that passes everything on, until something of it is replaced."""

    reader: "type[BrokenReader] | None" = None

    def __init__(self, store: Any) -> None:
        self.real = open_layouts(store, "pulsar_blob")[0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def open_ledger(self, ref: LedgerRef) -> Any:
        real = self.real.open_ledger(ref)
        return BrokenReader(real) if self.reader is None else self.reader(real)

    def check_ledger(self, ledger: Any, on_read: Any, digest: Any = None) -> Any:
        return self.real.check_ledger(ledger.real, on_read, digest)

    def check_catalog(self, catalog: Any, open_ledger: Any) -> Any:
        return self.real.check_catalog(catalog, lambda ref: open_ledger(ref).real)


@dataclass
class BrokenReader:
    real: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "real":
            raise AttributeError(name)
        return getattr(self.real, name)

    @property
    def stream(self) -> Any:
        return stream_of_broken

    def read(self, first: int, last: int) -> Any:
        return self.real.read(first, last)

    def batches(self, first: int, last: int, on_damage: Any = None) -> Iterator[EntryBatch]:
        return self.real.batches(first, last, on_damage)


def stream_of_broken(spans: Sequence[Span]) -> Iterator[tuple[int, EntryBatch]]:
    for number, span in enumerate(spans):
        for batch in span.ledger.batches(span.first, span.last, span.on_damage):
            yield number, batch


def stream_without_the_last(spans: Sequence[Span]) -> Iterator[tuple[int, EntryBatch]]:
    for number, batch in stream_of_broken(spans):
        last = batch.last_entry - (number == len(spans) - 1 and batch.last_entry == spans[number].last)
        if last >= batch.first_entry:
            yield number, batch.slice(batch.first_entry, last)


def stream_that_numbers_ledgers(spans: Sequence[Span]) -> Iterator[tuple[int, EntryBatch]]:
    return ((spans[number].ledger.ref.ledger_id, batch) for number, batch in stream_of_broken(spans))


class TakesAll(Broken):
    def begin_listing(self) -> Any:
        listing = self.real.begin_listing()
        take = listing.take

        class Greedy:
            def take(self, page: Any) -> list[ObjectStat]:
                take(page)
                return []

            def tables(self) -> Any:
                return listing.tables()

        return Greedy()


class LeavesIndexes(Broken):
    def begin_listing(self) -> Any:
        listing = self.real.begin_listing()

        class Shy:
            def take(self, page: Any) -> list[ObjectStat]:
                return listing.take(page) + [stat for stat in page if stat.key.endswith("-index")]

            def tables(self) -> Any:
                return listing.tables()

        return Shy()


class FindsOneTooFew(Broken):
    def load(self, *arguments: Any) -> FoundLedgers:
        found = self.real.load(*arguments)
        return FoundLedgers(found.ledgers[:-1], found.remains)


class TellsTheWrongLast(Broken):
    def load(self, *arguments: Any) -> FoundLedgers:
        found = self.real.load(*arguments)
        found.ledgers["last_entry"] -= 1
        return found


class KnowsNothingFromBefore(Broken):
    def load(self, listing: Any, previous: Any, *arguments: Any) -> FoundLedgers:
        return self.real.load(listing, None, *arguments)


class BelievesWhatItKnew(Broken):
    """Takes rows of an earlier catalog without a look at the versions of objects."""

    known: Any = None

    def load(self, listing: Any, previous: Any, names: Any, places: Any, progress: Any) -> FoundLedgers:
        found = self.real.load(listing, previous, names, places, progress)
        if previous is not None and found.ledgers.size == previous.ledgers.size:
            names.row_of(previous.names[0])
            return FoundLedgers(previous.ledgers.copy(), found.remains)
        return found


class IgnoresTheVersion(Broken):
    def open_ledger(self, ref: LedgerRef) -> Any:
        objects = tuple((role, replace(stat, version="")) for role, stat in ref.objects)
        return super().open_ledger(replace(ref, objects=objects))


class ChecksNothing(Broken):
    def check_catalog(self, catalog: Any, open_ledger: Any) -> Any:
        return []


class CriesWolf(Broken):
    def check_ledger(self, ledger: Any, on_read: Any, digest: Any = None) -> Any:
        check = super().check_ledger(ledger, on_read, digest)
        check.findings.append(Finding(Severity.DAMAGE, "checksum-mismatch", "there is a wolf"))
        return check


class CountsNoBytes(Broken):
    def check_ledger(self, ledger: Any, on_read: Any, digest: Any = None) -> Any:
        return super().check_ledger(ledger, lambda count: None, digest)


class FeedsNoDigest(Broken):
    def check_ledger(self, ledger: Any, on_read: Any, digest: Any = None) -> Any:
        check = super().check_ledger(ledger, on_read, None if digest is None else digest.copy())
        check.digest = digest
        return check


class DropsTheLastOfAStream(Broken):
    class reader(BrokenReader):  # type: ignore[assignment]  # noqa: N801
        @property
        def stream(self) -> Any:
            return stream_without_the_last


class NumbersSpansByLedgers(Broken):
    class reader(BrokenReader):  # type: ignore[assignment]  # noqa: N801
        @property
        def stream(self) -> Any:
            return stream_that_numbers_ledgers


class ShiftsIds(Broken):
    class reader(BrokenReader):  # type: ignore[assignment]  # noqa: N801
        def batches(self, first: int, last: int, on_damage: Any = None) -> Iterator[EntryBatch]:
            return (replace(one, first_entry=one.first_entry + 1) for one in self.real.batches(first, last, on_damage))


class EndsWhereDamageBegins(Broken):
    class reader(BrokenReader):  # type: ignore[assignment]  # noqa: N801
        def batches(self, first: int, last: int, on_damage: Any = None) -> Iterator[EntryBatch]:
            try:
                yield from self.real.batches(first, last, on_damage)
            except CorruptLedgerError:
                return


class TellsNoDamage(Broken):
    class reader(BrokenReader):  # type: ignore[assignment]  # noqa: N801
        def batches(self, first: int, last: int, on_damage: Any = None) -> Iterator[EntryBatch]:
            return self.real.batches(first, last, None if on_damage is None else lambda *one: None)


class ReadsWhatIsThere(Broken):
    class reader(BrokenReader):  # type: ignore[assignment]  # noqa: N801
        def read(self, first: int, last: int) -> Any:
            return self.real.read(max(first, 0), min(last, self.real.last_entry))


class RaisesItsOwn(Broken):
    class reader(BrokenReader):  # type: ignore[assignment]  # noqa: N801
        def batches(self, first: int, last: int, on_damage: Any = None) -> Iterator[EntryBatch]:
            try:
                yield from self.real.batches(first, last, on_damage)
            except EntryRangeError:
                raise
            except LedgerfsError as error:
                raise ValueError(str(error)) from error


class CutsAnywhere(Broken):
    class reader(BrokenReader):  # type: ignore[assignment]  # noqa: N801
        def cuts(self) -> Any:
            return np.sort(self.real.cuts())[::-1]


class GlancesTooShort(Broken):
    class reader(BrokenReader):  # type: ignore[assignment]  # noqa: N801
        def glance(self, entry: int, size: int) -> Glance:
            found = self.real.glance(entry, size)
            return Glance(found.front, len(found.front))


class DoesNotPickle(Broken):
    class reader(BrokenReader):  # type: ignore[assignment]  # noqa: N801
        def __reduce__(self) -> Any:
            raise TypeError("a lock")


class RecordsLackOne(Broken):
    class reader(BrokenReader):  # type: ignore[assignment]  # noqa: N801
        def records(self) -> Any:
            file = self.real.records()

            class Short:
                size = file.size

                def read(self, start: int, end: int) -> bytes:
                    return file.read(start, max(start, end - 1))

            return Short()


class DescribesByObjects(Broken):
    class reader(BrokenReader):  # type: ignore[assignment]  # noqa: N801
        def describe(self) -> dict[str, Any]:
            return {**self.real.describe(), "ref": self.real.ref}


OF_LISTINGS = {
    "test_it_takes_its_own_objects_and_no_others": [TakesAll, LeavesIndexes],
    "test_every_ledger_is_a_row": [FindsOneTooFew, TellsTheWrongLast],
    "test_a_second_listing_reads_nothing_again": [KnowsNothingFromBefore],
    "test_what_was_replaced_since_is_read_again": [BelievesWhatItKnew],
}
OF_READERS = {
    "test_any_range_is_that_part_of_the_whole": [DropsTheLastOfAStream],
    "test_ledgers_are_streamed_one_after_the_other": [DropsTheLastOfAStream, NumbersSpansByLedgers],
    "test_every_entry_is_what_was_written": [ShiftsIds],
    "test_batches_tell_ids_and_places": [ShiftsIds],
    "test_entries_that_are_not_there_are_refused": [ReadsWhatIsThere],
    "test_cuts_are_entries_where_reading_can_begin": [CutsAnywhere],
    "test_a_glance_is_the_front_of_an_entry": [GlancesTooShort],
    "test_readers_and_what_they_read_pickle": [DoesNotPickle],
    "test_records_are_the_file_of_entries": [RecordsLackOne],
    "test_what_is_told_of_a_ledger_agrees": [DescribesByObjects],
}
OF_DAMAGE = {
    "test_a_ledger_that_was_replaced_is_stale": [IgnoresTheVersion],
    "test_each_damage_is_found": [ChecksNothing],
    "test_a_sound_ledger_is_found_to_be_sound": [CriesWolf, CountsNoBytes, FeedsNoDigest],
    "test_what_is_cut_anywhere_never_lacks_entries_without_a_word": [EndsWhereDamageBegins, RaisesItsOwn],
    "test_damaged_entries_are_told_and_the_others_are_read": [TellsNoDamage],
    "test_any_flipped_bit_gives_entries_or_our_error": [RaisesItsOwn],
    "test_an_object_that_is_gone_is_named": [RaisesItsOwn],
}


class FewCuts(LayoutTests):
    """The suite with few places at which an object is cut: where a promise is broken, each of them is one too many."""

    truncations = 3
    damaged_ledgers = 1


def run(kind: type[Broken], test: str, folder: Path) -> None:
    """Run one test of the suite with a layout, and what its fixtures would give."""
    folder.mkdir()
    sample = made_up()
    whole = OpenedBucket(folder / "whole", kind)
    whole.put(sample.objects)
    bucket = OpenedBucket(folder / "bucket", kind)
    given = {"sample": sample, "whole": whole, "few": few_of(sample, OpenedBucket(folder / "whole", Broken)),
             "bucket": bucket, "tmp_path": folder}  # fmt: skip
    method = getattr(FewCuts(), test)
    method(**{name: given[name] for name in signature(method).parameters})


def require_noticed(test: str, kinds: list[type[Broken]], folder: Path) -> None:
    """Check that a test of the suite fails for each broken layout, and only because of that."""
    within = folder / test
    within.mkdir()
    run(Broken, test, within / "sound")
    for kind in kinds:
        try:
            run(kind, test, within / kind.__name__)
        except (Exception, pytest.fail.Exception):  # noqa: BLE001  (whatever the suite fails with)
            continue
        pytest.fail(f"{test} does not notice {kind.__name__}")


@for_each(("test", "kinds"), OF_LISTINGS.items())
def test_a_broken_promise_of_a_listing_is_noticed(test: str, kinds: list[type[Broken]], tmp_path: Path) -> None:
    require_noticed(test, kinds, tmp_path)


@for_each(("test", "kinds"), OF_READERS.items())
def test_a_broken_promise_of_a_reader_is_noticed(test: str, kinds: list[type[Broken]], tmp_path: Path) -> None:
    require_noticed(test, kinds, tmp_path)


@for_each(("test", "kinds"), OF_DAMAGE.items())
def test_a_broken_promise_about_damage_is_noticed(test: str, kinds: list[type[Broken]], tmp_path: Path) -> None:
    require_noticed(test, kinds, tmp_path)


class TestPassesAllOn(LayoutTests):
    """What only passes everything on keeps all promises, with ledgers of many cuts."""

    @staticmethod
    def open_layout(store: Any) -> Any:
        return Broken(store)

    @pytest.fixture(scope="class")
    @classmethod
    def sample(cls) -> SampleBucket:
        return made_up()
