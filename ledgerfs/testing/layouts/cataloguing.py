"""Test the catalog: a layout finds all of its own ledgers, and reuses what it has read before."""

import json
import pickle
import time
from dataclasses import replace

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.fragments import Kept
from ledgerfs.catalog.layout import RepairRequest
from ledgerfs.catalog.layouts_known import layout_rows
from ledgerfs.catalog.ledger_ref import CatalogState, LedgerRef
from ledgerfs.storage.objects import ObjectStat
from ledgerfs.testing.layouts.opened import OpenedBucket
from ledgerfs.testing.layouts.sample import SampleBucket


class CataloguingTests:
    """Tests of `begin_listing`, `load`, `completed` and `gaps`."""

    def test_a_layout_has_a_number_for_good(self, whole: OpenedBucket) -> None:
        assert whole.layout.number == layout_rows(whole.layout.number).NUMBER
        assert isinstance(whole.layout.is_in_folders, bool)

    def test_it_takes_its_own_objects_and_no_others(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        listing = whole.layout.begin_listing()
        own = [ObjectStat(key, len(data), 1, "1") for key, data in sample.objects.items()]
        others = [ObjectStat(key, 5, 1, "1") for key in sample.others]
        assert listing.take(own) == []
        assert listing.take(others) == others
        mixed = [one for pair in zip(own, others * len(own), strict=False) for one in pair]
        assert whole.layout.begin_listing().take(mixed) == mixed[1::2]
        assert listing.take([]) == []

    def test_every_ledger_is_a_row(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        catalog = whole.catalog()
        found = {(ref.managed_ledger, ref.ledger_id): ref for ref in catalog.refs()}
        assert set(found) == {ledger.name for ledger in sample.ledgers}
        assert catalog.ledgers.size == len(sample.ledgers)
        for ledger in sample.ledgers:
            ref = found[ledger.name]
            assert (ref.first_entry, ref.last_entry) == (ledger.first_entry, ledger.last_entry), ledger.name
            assert ref.length in {-1, sum(map(len, ledger.entries))}
            assert (ref.layout, ref.copy, ref.state) == (whole.layout.number, 0, CatalogState.SOUND)
            assert 1 <= ref.cuts <= len(ledger.entries)
            assert ref.changed_ms > 0
            assert ref.created_ms is None or ref.created_ms > 0
            assert ref.objects
            assert ref.key == ref.objects[0][1].key

    def test_rows_name_the_objects_that_are_there(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        named = [stat for ref in whole.catalog().refs() for _, stat in ref.objects]
        assert {stat.key: stat.size for stat in named}.items() <= {
            key: len(data) for key, data in sample.objects.items()
        }.items()
        for stat in named:
            assert whole.store.head(stat.key).stat.version == stat.version or not stat.version, stat.key
        for ref in whole.catalog().refs():
            assert ref.stored == ref.objects[0][1].size

    def test_nothing_is_missing_in_a_sound_bucket(self, whole: OpenedBucket) -> None:
        catalog = whole.catalog()
        assert (catalog.gaps.size, catalog.lost.size, catalog.others.counts) == (0, 0, {})
        assert all(one.is_empty for one in catalog.fragments.values())

    def test_an_empty_bucket_is_empty(self, bucket: OpenedBucket) -> None:
        catalog = bucket.catalog()
        assert catalog.is_empty
        assert (catalog.ledgers.size, catalog.gaps.size) == (0, 0)

    def test_keys_of_others_change_nothing(self, few: SampleBucket, bucket: OpenedBucket) -> None:
        bucket.put(few.objects)
        before = refs_of(bucket.catalog())
        bucket.put({f"{key}nothing" if key.endswith("/") else key: b"other" for key in few.others})
        catalog = bucket.catalog()
        assert refs_of(catalog) == before
        assert sum(catalog.others.counts.values()) > 0
        assert catalog.gaps.size == 0

    def test_a_second_listing_reads_nothing_again(self, whole: OpenedBucket) -> None:
        before = whole.catalog()
        received = whole.raw.traffic.stats().bytes_received
        again = whole.catalog(before)
        assert whole.raw.traffic.stats().bytes_received == received
        assert refs_of(again) == refs_of(before)
        assert (again.names, again.places) == (before.names, before.places)

    def test_what_was_added_and_removed_since_is_seen(self, few: SampleBucket, bucket: OpenedBucket) -> None:
        bucket.put(few.objects)
        keys = bucket.keys()[few.ledgers[0].name]
        full = bucket.catalog()
        bucket.put(dict.fromkeys(keys))
        fewer = bucket.catalog(full)
        assert refs_of(fewer) == refs_of(bucket.catalog())
        assert names_of(fewer) == {ledger.name for ledger in few.ledgers[1:]}
        bucket.put({key: few.objects[key] for key in keys})
        more = bucket.catalog(fewer)
        assert refs_of(more) == refs_of(bucket.catalog())
        assert names_of(more) == {ledger.name for ledger in few.ledgers}

    def test_what_was_replaced_since_is_read_again(self, few: SampleBucket, bucket: OpenedBucket) -> None:
        bucket.put(few.objects)
        before = bucket.catalog()
        keys = bucket.keys()[few.ledgers[0].name]
        bucket.put({key: few.objects[key] for key in keys})
        after = bucket.catalog(before)
        changed = {one.version for one in refs_of(after)} - {one.version for one in refs_of(before)}
        assert len(changed) == 1, "a ledger whose objects are others has the version that it had"
        assert refs_of(after) == refs_of(bucket.catalog())

    def test_progress_is_reported(self, whole: OpenedBucket) -> None:
        reported: list[tuple[str, int, int | None]] = []
        whole.catalog(progress=lambda *one: reported.append(one))
        assert reported
        assert all(done >= 0 and (most is None or done <= most) for _, done, most in reported)

    def test_catalogs_and_their_rows_pickle(self, whole: OpenedBucket) -> None:
        catalog = whole.catalog()
        again: Catalog = pickle.loads(pickle.dumps(catalog))
        assert refs_of(again) == refs_of(catalog)
        assert pickle.loads(pickle.dumps(refs_of(catalog))) == refs_of(catalog)

    def test_fragments_are_kept_for_other_processes(self, few: SampleBucket, bucket: OpenedBucket) -> None:
        rows = layout_rows(bucket.layout.number)
        for damage in (None, *few.damages):
            bucket.put(few.objects if damage is None else damage.objects)
            fragments = bucket.catalog().fragments[bucket.layout.number]
            if fragments.is_lasting:
                kept = rows.kept(fragments)
                assert set(kept.tables) == set(rows.KEPT_TABLES)
                again = rows.fragments_of_kept(Kept(json.loads(json.dumps(kept.reported)), kept.tables))
                assert (again.counts(), again.is_empty) == (fragments.counts(), fragments.is_empty)
                assert sorted(again.ledger_ids()) == sorted(fragments.ledger_ids())
            bucket.put(few.objects if damage is None else {key: few.objects[key] for key in damage.objects})

    def test_there_is_nothing_to_repair_in_a_sound_bucket(self, whole: OpenedBucket) -> None:
        request = RepairRequest(
            store=whole.raw,
            catalog=whole.catalog(),
            list_all=whole.catalog,
            layouts=frozenset([whole.layout.number]),
            open_ledger=whole.reader,
            managed_ledger=None,
            ledgers=None,
            older_than_ms=0,
            now_ms=int(time.time() * 1000),
            metadata=False,
            progress=None,
        )
        assert list(whole.layout.repairs(request)) == []
        assert list(whole.layout.repairs(replace(request, ledgers=frozenset()))) == []


def refs_of(catalog: Catalog) -> list[LedgerRef]:
    """Return all rows as values."""
    return list(catalog.refs())


def names_of(catalog: Catalog) -> set[tuple[str | None, int]]:
    """Return managed ledger and id of each ledger."""
    return {(ref.managed_ledger, ref.ledger_id) for ref in catalog.refs()}
