"""Test writes: an object appears whole or not at all, and never replaces another one."""

import threading
import time
from contextlib import suppress
from typing import ClassVar

import pytest

from ledgerfs.errors import (
    LedgerfsError,
    ObjectExistsError,
    ObjectNotFoundError,
    StaleObjectError,
    UnsupportedWriteError,
)
from ledgerfs.storage.object_writes import Upload, WritableStore
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.testing.stores.listed import listed
from ledgerfs.testing.stores.place import WritablePlace

METADATA = {"role": "data", "under_score": "x"}


class WritingTests:
    """Tests of `WritableStore` and `Upload`."""

    shows_half_written: ClassVar[bool] = False
    """Whether an object may be visible before its upload is complete."""
    creates_at_once: ClassVar[bool] = True
    """Whether the store refuses the second of two writers that create an object at the same time."""
    reports_unfinished: ClassVar[bool] = True
    """Whether the store lists unfinished uploads."""

    def test_what_is_put_is_there(self, place: WritablePlace) -> None:
        for key, data in (("a", b"some bytes"), ("empty", b""), ("a b+é%", b"x" * 100_000)):
            stat = place.store.writes.put(key, data, {})
            assert (stat.key, stat.size) == (key, len(data))
            assert stat.version == place.store.head(key).stat.version == listed(place.store)[key].version
            assert place.objects()[key] == data
            assert place.store.read(ReadRequest(key, 0, len(data), stat.version)) == data

    def test_what_is_put_below_folders_is_there(self, place: WritablePlace) -> None:
        for key in ("some/folders/a", "some/folders/b", "some/c"):
            stat = place.store.writes.put(key, key.encode(), {})
            assert place.store.read(ReadRequest(key, 0, len(key), stat.version)) == key.encode()
            with pytest.raises(ObjectExistsError):
                place.store.writes.put(key, b"of another", {})
        found = {stat.key: stat.size for page in place.store.list_folder("some/") for stat in page}
        assert found == {"some/folders/a": 14, "some/folders/b": 14, "some/c": 6}
        assert [stat for page in place.store.list_folder("some/other/") for stat in page] == []

    def test_an_object_is_never_written_over(self, place: WritablePlace) -> None:
        place.put("a", b"of another")
        for data in (b"some bytes", b"", b"of anothes", b"of another one"):
            with pytest.raises(ObjectExistsError) as caught:
                place.store.writes.put("a", data, {})
            assert caught.value.key == "a"
            assert place.objects() == {"a": b"of another"}

    def test_the_same_bytes_again_are_written_or_refused(self, place: WritablePlace) -> None:
        first = place.store.writes.put("a", b"some bytes", {})
        with suppress(ObjectExistsError):
            assert place.store.writes.put("a", b"some bytes", {}) == first
        assert place.objects() == {"a": b"some bytes"}

    def test_of_many_who_put_at_once_one_wins(self, place: WritablePlace) -> None:
        won: list[bytes] = []
        others: list[LedgerfsError] = []
        start = threading.Barrier(6)

        def put(data: bytes) -> None:
            start.wait()
            try:
                place.store.writes.put("a", data, {})
                won.append(data)
            except LedgerfsError as error:
                others.append(error)

        threads = [threading.Thread(target=put, args=(b"%d" % number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) + len(others) == 6
        assert all(isinstance(error, ObjectExistsError) for error in others) or not self.creates_at_once
        assert len(won) == 1 or not self.creates_at_once
        assert place.objects()["a"] in won or not self.creates_at_once
        assert set(place.objects()) == {"a"}

    def test_parts_become_one_object(self, place: WritablePlace) -> None:
        writes = place.store.writes
        size = part_size(writes)
        parts = [bytes([number]) * size for number in (1, 2)] + [b"the last one"]
        upload = writes.begin_upload("a", {}, size)
        for part in parts:
            upload.write(part[:7])
            upload.write(memoryview(part)[7:])
            upload.end_part()
            if not self.shows_half_written:
                assert listed(place.store) == {}
        stat = upload.complete()
        assert stat.size == sum(map(len, parts))
        assert stat.version == place.store.head("a").stat.version
        assert place.objects() == {"a": b"".join(parts)}
        upload.abort()
        assert set(place.objects()) == {"a"}, "aborting after completion removed the object"
        assert unfinished(writes) == []

    def test_the_front_of_a_part_can_be_replaced(self, place: WritablePlace) -> None:
        writes = place.store.writes
        size = part_size(writes)
        upload = writes.begin_upload("a", {}, size)
        upload.write(b"?" * size)
        upload.replace_front(b"first")
        upload.end_part()
        upload.write(b"????rest")
        upload.replace_front(b"next")
        upload.end_part()
        upload.complete()
        assert place.objects() == {"a": b"first" + b"?" * (size - 5) + b"nextrest"}

    def test_what_was_written_belongs_to_the_writer_again(self, place: WritablePlace) -> None:
        upload = place.store.writes.begin_upload("a", {}, part_size(place.store.writes))
        buffer = bytearray(b"some bytes")
        upload.write(memoryview(buffer))
        buffer[:] = b"?" * 10
        upload.end_part()
        upload.complete()
        assert place.objects() == {"a": b"some bytes"}

    def test_what_is_aborted_leaves_nothing(self, place: WritablePlace) -> None:
        writes = place.store.writes
        size = part_size(writes)
        for parts in range(3):
            upload = writes.begin_upload("a", {}, size)
            for _ in range(parts):
                upload.write(b"x" * size)
                upload.end_part()
            upload.write(b"the beginning of a part")
            upload.abort()
            upload.abort()
            assert place.objects() == {}
            assert listed(place.store) == {}
            assert unfinished(writes) == []
        writes.put("a", b"another", {})
        assert place.objects() == {"a": b"another"}

    def test_an_upload_never_replaces_an_object(self, place: WritablePlace) -> None:
        writes = place.store.writes
        for when in ("before", "meanwhile"):
            if when == "before":
                place.put(when, b"of another")
            upload = writes.begin_upload(when, {}, part_size(writes))
            with pytest.raises(ObjectExistsError) as caught:  # noqa: PT012  (a store may check at any of these calls)
                upload.write(b"ours")
                if when == "meanwhile":
                    writes.put(when, b"of another", {})
                upload.end_part()
                upload.complete()
            assert caught.value.key == when
            upload.abort()
            assert place.objects()[when] == b"of another"
        assert set(place.objects()) == {"before", "meanwhile"}
        assert unfinished(writes) == []

    def test_of_two_uploads_the_first_to_complete_wins(self, place: WritablePlace) -> None:
        writes = place.store.writes
        first, second = (writes.begin_upload("a", {}, part_size(writes)) for _ in range(2))
        first.write(b"first")
        first.end_part()
        with suppress(ObjectExistsError):
            second.write(b"second")
            second.end_part()
        first.complete()
        with pytest.raises(ObjectExistsError):
            second.complete()
        second.abort()
        assert place.objects() == {"a": b"first"}

    def test_unfinished_uploads_are_reported_and_can_be_ended(self, place: WritablePlace) -> None:
        writes = place.store.writes
        upload = begun(writes, "a")
        reported = list(writes.unfinished_uploads())
        if self.reports_unfinished:
            assert [one.key for one in reported] == ["a"]
            assert 0 < reported[0].begun_ms < time.time() * 1000 + 86_400_000
            for _ in range(2):
                writes.end_unfinished(reported[0])
                assert unfinished(writes) == []
                assert place.objects() == {}
        else:
            assert reported == []
        upload.abort()
        assert place.objects() == {}

    def test_what_is_deleted_is_gone(self, place: WritablePlace) -> None:
        for key in ("a", "ab", "b/a"):
            place.put(key, b"1")
        place.store.writes.delete("a")
        assert set(place.objects()) == {"ab", "b/a"}
        with pytest.raises(ObjectNotFoundError):
            place.store.head("a")
        place.store.writes.delete("a")
        place.store.writes.delete("missing")
        assert set(place.objects()) == {"ab", "b/a"}

    def test_user_metadata_is_kept_where_the_store_says_so(self, place: WritablePlace) -> None:
        writes = place.store.writes
        writes.put("a", b"1", METADATA)
        upload = writes.begin_upload("b", METADATA, part_size(writes))
        upload.write(b"2")
        upload.end_part()
        upload.complete()
        reported = [place.store.head(key).metadata for key in ("a", "b")]
        assert reported == ([METADATA] * 2 if writes.keeps_metadata else [None] * 2)

    def test_user_metadata_is_changed_or_that_is_refused(self, place: WritablePlace) -> None:
        writes = place.store.writes
        stat = writes.put("a", b"some bytes", METADATA)
        if not writes.can_set_metadata:
            with pytest.raises(UnsupportedWriteError):
                writes.set_metadata(stat, {"role": "index"})
            return
        writes.set_metadata(stat, {"role": "index"})
        assert place.store.head("a").metadata == {"role": "index"}
        assert place.objects() == {"a": b"some bytes"}
        now = place.store.head("a").stat
        place.put("a", b"other bytes", METADATA)
        with pytest.raises(StaleObjectError):
            writes.set_metadata(now, {"role": "index"})
        assert place.store.head("a").metadata == METADATA

    def test_a_folder_that_is_there_may_be_made_again(self, place: WritablePlace) -> None:
        place.put("a", b"1")
        place.store.writes.make_folder()
        assert place.objects() == {"a": b"1"}

    def test_what_is_sent_is_counted(self, place: WritablePlace) -> None:
        before = place.store.traffic.stats().bytes_sent
        place.store.writes.put("a", b"some bytes", {})
        assert place.store.traffic.stats().bytes_sent - before == 10


def part_size(writes: WritableStore) -> int:
    """Return a part size that the store accepts."""
    assert writes.most_parts >= 100
    return max(writes.smallest_part, 1000)


def unfinished(writes: WritableStore) -> list[str]:
    """Return the keys of unfinished uploads."""
    return [one.key for one in writes.unfinished_uploads()]


def begun(writes: WritableStore, key: str) -> Upload:
    """Start an upload and send one part."""
    size = part_size(writes)
    upload = writes.begin_upload(key, {}, size)
    upload.write(b"x" * size)
    upload.end_part()
    return upload
