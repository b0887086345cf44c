"""The suite for layouts fails, by the right test, for a layout that breaks one promise, and for none that keeps them all."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
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


def broken(**methods: Any) -> type[Broken]:
    """Return a layout with other methods; each gets the layout, whose ``real`` is the sound one."""
    return type("OneBroken", (Broken,), methods)


def broken_reader(**methods: Any) -> type[Broken]:
    """Return a layout whose readers have other methods."""
    return broken(reader=type("OneBrokenReader", (BrokenReader,), methods))


def listing_that_takes(taken: Callable[[Any, Any], list[ObjectStat]]) -> type[Broken]:
    """Return a layout that leaves other objects of a page to others."""

    def begin_listing(self: Broken) -> Any:
        listing = self.real.begin_listing()
        return SimpleNamespace(take=lambda page: taken(listing, page), tables=listing.tables)

    return broken(begin_listing=begin_listing)


def take_all(listing: Any, page: Any) -> list[ObjectStat]:
    listing.take(page)
    return []


def leave_indexes(listing: Any, page: Any) -> list[ObjectStat]:
    return [*listing.take(page), *(stat for stat in page if stat.key.endswith("-index"))]


def load_one_too_few(self: Any, *arguments: Any) -> FoundLedgers:
    found = self.real.load(*arguments)
    return FoundLedgers(found.ledgers[:-1], found.fragments)


def load_the_wrong_last(self: Any, *arguments: Any) -> FoundLedgers:
    found: FoundLedgers = self.real.load(*arguments)
    found.ledgers["last_entry"] -= 1
    return found


def load_what_was_known(self: Any, listing: Any, previous: Any, names: Any, *rest: Any) -> FoundLedgers:
    """Take rows of an earlier catalog without a look at the versions of objects."""
    found: FoundLedgers = self.real.load(listing, previous, names, *rest)
    if previous is not None and found.ledgers.size == previous.ledgers.size:
        names.row_of(previous.names[0])
        return FoundLedgers(previous.ledgers.copy(), found.fragments)
    return found


def open_any_version(self: Broken, ref: LedgerRef) -> Any:
    objects = tuple((role, replace(stat, version="")) for role, stat in ref.objects)
    return Broken.open_ledger(self, replace(ref, objects=objects))


def cry_wolf(self: Broken, ledger: Any, on_read: Any, digest: Any = None) -> Any:
    check = Broken.check_ledger(self, ledger, on_read, digest)
    check.findings.append(Finding(Severity.DAMAGE, "checksum-mismatch", "there is a wolf"))
    return check


def count_no_bytes(self: Broken, ledger: Any, on_read: Any, digest: Any = None) -> Any:
    return Broken.check_ledger(self, ledger, lambda count: None, digest)


def feed_no_digest(self: Broken, ledger: Any, on_read: Any, digest: Any = None) -> Any:
    check = Broken.check_ledger(self, ledger, on_read, None if digest is None else digest.copy())
    check.digest = digest
    return check


def shifted(self: Any, first: int, last: int, on_damage: Any = None) -> Iterator[EntryBatch]:
    return (replace(one, first_entry=one.first_entry + 1) for one in self.real.batches(first, last, on_damage))


def ended_by_damage(self: Any, first: int, last: int, on_damage: Any = None) -> Iterator[EntryBatch]:
    try:
        yield from self.real.batches(first, last, on_damage)
    except CorruptLedgerError:
        return


def silent_about_damage(self: Any, first: int, last: int, on_damage: Any = None) -> Any:
    return self.real.batches(first, last, None if on_damage is None else lambda *one: None)


def with_errors_of_python(self: Any, first: int, last: int, on_damage: Any = None) -> Iterator[EntryBatch]:
    try:
        yield from self.real.batches(first, last, on_damage)
    except EntryRangeError:
        raise
    except LedgerfsError as error:
        raise ValueError(str(error)) from error


def glance_too_short(self: Any, entry: int, size: int) -> Glance:
    found = self.real.glance(entry, size)
    return Glance(found.front, len(found.front))


def refuse_to_pickle(self: Any) -> Any:
    raise TypeError("a lock")


def records_that_lack_one(self: Any) -> Any:
    file = self.real.records()
    return SimpleNamespace(size=file.size, read=lambda start, end: file.read(start, max(start, end - 1)))


DROPS_THE_LAST = broken_reader(stream=property(lambda _: stream_without_the_last))
NUMBERS_BY_LEDGERS = broken_reader(stream=property(lambda _: stream_that_numbers_ledgers))
SHIFTS_IDS = broken_reader(batches=shifted)
RAISES_ITS_OWN = broken_reader(batches=with_errors_of_python)

NOTICED = {
    "test_it_takes_its_own_objects_and_no_others": [listing_that_takes(take_all), listing_that_takes(leave_indexes)],
    "test_every_ledger_is_a_row": [broken(load=load_one_too_few), broken(load=load_the_wrong_last)],
    "test_a_second_listing_reads_nothing_again": [
        broken(load=lambda self, listing, previous, *arguments: self.real.load(listing, None, *arguments))
    ],
    "test_what_was_replaced_since_is_read_again": [broken(load=load_what_was_known)],
    "test_any_range_is_that_part_of_the_whole": [DROPS_THE_LAST],
    "test_ledgers_are_streamed_one_after_the_other": [DROPS_THE_LAST, NUMBERS_BY_LEDGERS],
    "test_every_entry_is_what_was_written": [SHIFTS_IDS],
    "test_batches_tell_ids_and_places": [SHIFTS_IDS],
    "test_entries_that_are_not_there_are_refused": [
        broken_reader(read=lambda self, first, last: self.real.read(max(first, 0), min(last, self.real.last_entry)))
    ],
    "test_cuts_are_entries_where_reading_can_begin": [broken_reader(cuts=lambda self: np.sort(self.real.cuts())[::-1])],
    "test_a_glance_is_the_front_of_an_entry": [broken_reader(glance=glance_too_short)],
    "test_readers_and_what_they_read_pickle": [broken_reader(__reduce__=refuse_to_pickle)],
    "test_records_are_the_file_of_entries": [broken_reader(records=records_that_lack_one)],
    "test_what_is_reported_of_a_ledger_agrees": [
        broken_reader(describe=lambda self: {**self.real.describe(), "ref": self.real.ref})
    ],
    "test_a_ledger_that_was_replaced_is_stale": [broken(open_ledger=open_any_version)],
    "test_each_damage_is_found": [broken(check_catalog=lambda self, catalog, open_ledger: [])],
    "test_a_sound_ledger_is_found_to_be_sound": [
        broken(check_ledger=cry_wolf),
        broken(check_ledger=count_no_bytes),
        broken(check_ledger=feed_no_digest),
    ],
    "test_what_is_cut_anywhere_never_lacks_entries_without_a_word": [
        broken_reader(batches=ended_by_damage),
        RAISES_ITS_OWN,
    ],
    "test_damaged_entries_are_reported_and_the_others_are_read": [broken_reader(batches=silent_about_damage)],
    "test_any_flipped_bit_gives_entries_or_our_error": [RAISES_ITS_OWN],
    "test_an_object_that_is_gone_is_named": [RAISES_ITS_OWN],
}
"""By the test of the suite that notices them, layouts that break a promise."""


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


@for_each(("test", "kinds"), NOTICED.items())
def test_a_broken_promise_is_noticed(test: str, kinds: list[type[Broken]], tmp_path: Path) -> None:
    """A test of the suite fails for each broken layout, and only because of that."""
    within = tmp_path / test
    within.mkdir()
    run(Broken, test, within / "sound")
    for number, kind in enumerate(kinds):
        try:
            run(kind, test, within / str(number))
        except (Exception, pytest.fail.Exception):  # noqa: BLE001  (whatever the suite fails with)
            continue
        pytest.fail(f"{test} does not notice broken layout {number}")
