"""Test damaged, missing and changed objects: errors and findings contain the name, and no entry is skipped silently."""

import random
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import ClassVar

import pytest

from ledgerfs.catalog.findings import Finding, Severity
from ledgerfs.errors import CorruptLedgerError, LedgerfsError, NotFoundError, StaleObjectError
from ledgerfs.testing.layouts.opened import OpenedBucket, all_of, entries_of, record_of, smallest
from ledgerfs.testing.layouts.sample import KnownLedger, SampleBucket


class DamagingTests:
    """Tests of checks, and of readers of damaged ledgers."""

    truncations: ClassVar[int] = 16
    """Number of offsets at which to truncate each object of a ledger."""
    damaged_ledgers: ClassVar[int] = 2
    """Number of ledgers, the smallest ones, to damage in all these ways."""

    def test_a_sound_ledger_is_found_to_be_sound(self, sample: SampleBucket, whole: OpenedBucket) -> None:
        catalog = whole.catalog()
        assert [one for one in whole.layout.check_catalog(catalog, whole.reader) if is_damage(one)] == []
        known = {ledger.name: ledger for ledger in sample.ledgers}
        for ref in catalog.refs():
            ledger, digest = known[ref.managed_ledger, ref.ledger_id], blake2b()
            check, reported = whole.check(ref, digest)
            assert [one for one in check.findings if one.severity is not Severity.REMARK] == [], ledger.name
            assert (check.ref, check.entries, check.bytes) == (ref, len(ledger.entries), reported)
            assert check.bytes >= ref.stored
            records = b"".join(record_of(*one) for one in ledger.part(ledger.first_entry, ledger.last_entry))
            assert digest.digest() == blake2b(records).digest()
            assert check.digest is digest
        assert all(one.severity is Severity.REMARK for one in whole.layout.remarks(catalog))

    def test_each_damage_is_found(self, few: SampleBucket, bucket: OpenedBucket) -> None:
        bucket.put(few.objects)
        for damage in few.damages:
            bucket.put(damage.objects)
            found = [one for one in bucket.damage() if one.kind in damage.kinds]
            assert found, f"nothing is said of: {damage.what}"
            assert any(one.ledger_id in {damage.ledger[1], None} for one in found), damage.what
            # The damage must not hide other ledgers.
            readers = bucket.readers()
            for ledger in smallest(few, 3):
                if ledger.name != damage.ledger:
                    assert all_of(readers[ledger.name]) == ledger.part(ledger.first_entry, ledger.last_entry)
            bucket.put({key: few.objects.get(key) for key in damage.objects})

    def test_what_is_cut_anywhere_never_lacks_entries_without_a_word(
        self, few: SampleBucket, bucket: OpenedBucket
    ) -> None:
        for ledger, objects in self._alone(few, bucket):
            for key, data in objects.items():
                for size in places_of(len(data), self.truncations):
                    bucket.put({**objects, key: data[:size]})
                    what = f"ledger {ledger.ledger_id}, {key} cut at {size}"
                    read_or_reported(ledger, bucket, what)
                    assert bucket.damage(), f"nothing is found: {what}"

    def test_any_flipped_bit_gives_entries_or_our_error(self, few: SampleBucket, bucket: OpenedBucket) -> None:
        for _, objects in self._alone(few, bucket):
            for key, data in objects.items():
                for at in places_of(len(data), self.truncations):
                    flipped = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
                    bucket.put({**objects, key: flipped})
                    for reader in bucket.readers().values():
                        with suppress(LedgerfsError):
                            ids = [entry for entry, _ in all_of(reader)]
                            assert ids == list(range(reader.first_entry, reader.last_entry + 1)), (key, at)
                    bucket.findings()

    def test_damaged_entries_are_reported_and_the_others_are_read(
        self, few: SampleBucket, bucket: OpenedBucket
    ) -> None:
        for ledger, objects in self._alone(few, bucket):
            key, data = next(iter(objects.items()))
            for size in places_of(len(data), self.truncations):
                bucket.put({**objects, key: data[:size]})
                for reader in bucket.readers().values():
                    reported: list[tuple[int, int]] = []

                    def tell(
                        first: int, last: int, error: CorruptLedgerError, reported: list[tuple[int, int]] = reported
                    ) -> None:
                        assert isinstance(error, LedgerfsError)
                        reported.append((first, last))

                    try:
                        batches = reader.batches(reader.first_entry, reader.last_entry, tell)
                        found = [(entry, bytes(one)) for batch in batches for entry, one in batch]
                    except LedgerfsError:
                        continue
                    lost = [entry for first, last in reported for entry in range(first, last + 1)]
                    every = list(range(ledger.first_entry, ledger.last_entry + 1))
                    assert sorted([*lost, *(entry for entry, _ in found)]) == every, (key, size)
                    assert found == [one for one in ledger.part(every[0], every[-1]) if one[0] not in set(lost)]

    def test_an_object_that_is_gone_is_named(self, few: SampleBucket, bucket: OpenedBucket) -> None:
        for ledger, objects in self._alone(few, bucket):
            for number, key in enumerate(objects):
                (reader,) = bucket.readers().values()
                bucket.put({key: None})
                try:
                    assert all_of(reader) == ledger.part(ledger.first_entry, ledger.last_entry)
                    assert number, "the object with the entries is gone, and they are read"
                except NotFoundError as error:
                    assert error.key == key
                bucket.put(objects)

    def test_a_ledger_that_was_replaced_is_stale(self, few: SampleBucket, bucket: OpenedBucket) -> None:
        for ledger, objects in self._alone(few, bucket):
            key, data = next(iter(objects.items()))
            (reader,) = bucket.readers().values()
            all_of(reader)
            new = bucket.reader(reader.ref)
            bucket.put({key: data[:-1] + bytes([data[-1] ^ 1])})
            with pytest.raises(StaleObjectError) as caught:
                all_of(new)
            assert caught.value.key == key
            reader.reread()
            with suppress(StaleObjectError):
                assert all_of(reader) == ledger.part(ledger.first_entry, ledger.last_entry)
            bucket.put(objects)
            assert all_of(next(iter(bucket.readers().values()))) == ledger.part(ledger.first_entry, ledger.last_entry)

    def test_what_changes_while_it_is_read_is_noticed(self, few: SampleBucket, bucket: OpenedBucket) -> None:
        """Test that a stream never yields entries of two versions."""
        largest = max(few.ledgers, key=lambda ledger: sum(map(len, ledger.entries)))
        for ledger, objects in self._alone(few, bucket, [largest]):
            (reader,) = bucket.readers().values()
            batches = reader.batches(ledger.first_entry, ledger.last_entry)
            found = [(entry, bytes(data)) for entry, data in next(batches)]
            bucket.put({key: bytes(len(data)) for key, data in objects.items()})
            try:
                found += [(entry, bytes(data)) for batch in batches for entry, data in batch]
                assert found == ledger.part(ledger.first_entry, ledger.last_entry)
            except StaleObjectError as error:
                assert error.key in objects
            assert found == ledger.part(ledger.first_entry, ledger.last_entry)[: len(found)]
            with pytest.raises(LedgerfsError):
                entries_of(bucket.reader(reader.ref), ledger.last_entry, ledger.last_entry)

    def _alone(
        self, few: SampleBucket, bucket: OpenedBucket, ledgers: list[KnownLedger] | None = None
    ) -> Iterator[tuple[KnownLedger, dict[str, bytes]]]:
        """Yield ledgers and their objects, the data object first, each alone in the bucket."""
        bucket.put(few.objects)
        found = bucket.keys()
        bucket.put(dict.fromkeys(few.objects))
        for ledger in ledgers or smallest(few, self.damaged_ledgers):
            keys = found[ledger.name]
            objects = {key: few.objects[key] for key in keys}
            bucket.put(objects)
            yield ledger, objects
            bucket.put(dict.fromkeys(keys))


def read_or_reported(ledger: KnownLedger, bucket: OpenedBucket, what: str) -> None:
    """Assert that every entry is readable, or an error contains the object, or the catalog reports the ledger as lost."""
    catalog = bucket.catalog()
    for ref in catalog.refs():
        try:
            assert all_of(bucket.reader(ref)) == ledger.part(ledger.first_entry, ledger.last_entry), what
        except LedgerfsError as error:
            assert error.key, what
        return
    reported = {*catalog.lost["ledger_id"].tolist(), *catalog.gaps["ledger_id"].tolist()}
    assert ledger.ledger_id in reported, f"the catalog does not know of it: {what}"


def is_damage(finding: Finding) -> bool:
    """Whether a finding is damage."""
    return finding.severity is Severity.DAMAGE


def places_of(size: int, count: int) -> list[int]:
    """Return offsets in an object: first, last and middle ones, and pseudo-random ones with a fixed seed."""
    ends = {0, 1, size // 2, size - 2, size - 1} | set(random.Random(size).sample(range(size), min(count, size)))  # noqa: S311
    return sorted(at for at in ends if 0 <= at < size)
