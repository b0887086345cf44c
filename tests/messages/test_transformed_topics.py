"""Any topic that Pulsar could write, after each transform: a reader sees the same, and all that a transform need not change stays.

Drawing a topic takes longer than all that is done with it, so that one test does it all.
"""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.messages.decode.entry_checksum import EntryState, check_entries
from ledgerfs.messages.transforms.entry_transform import EntryTransform, recompress, unbatch
from tests.messages.test_decode_roundtrip import ALL, SETTINGS, TOPICS, decoded, topics
from tests.messages.test_recompress import NAMES, fields_of, parts_of
from tests.messages.test_settle import MARKS, assert_differs_in_tags, assert_is_marker, settle, transaction_of
from tests.support.entries import batch_of
from tests.support.transforms import PLACES, entries_of, rows_of

Batches = Sequence[tuple[int, int, list[bytes]]]


@pytest.mark.long
@SETTINGS
@given(topic=st.sampled_from(TOPICS), made=topics(), codec=st.sampled_from(NAMES), odd=st.integers(0, 1))
def test_everything_that_could_be_sent_reads_the_same(topic, made, codec, odd):
    _, batches = made
    rows = decoded(topic, batches, columns=ALL, include_markers=True)
    check_recompressed(topic, batches, codec, rows)
    check_unbatched(topic, batches, codec, rows)
    check_settled(topic, batches, lambda transaction: sum(transaction) % 2 == odd)


def check_recompressed(topic: str, batches: Batches, codec: str, rows: list[dict]) -> None:
    """Check that metadata is kept byte for byte, but for compression."""
    changed = transformed_of(recompress(codec), batches)
    assert decoded(topic, changed, columns=ALL, include_markers=True) == rows
    for (_, _, before), (_, _, after) in zip(batches, changed, strict=True):
        for old, new in zip(before, after, strict=True):
            (front, head, _), (new_front, new_head, _) = parts_of(old), parts_of(new)
            assert fields_of(new_head) == fields_of(head)
            assert len(new_front) == len(front)
            assert new_front[:-4] == front[:-4]


def check_unbatched(topic: str, batches: Batches, codec: str, rows: list[dict]) -> None:
    """Check the rows without their places, which are other ones."""
    changed, next_entry = [], {}
    for ledger, first, entries in batches:
        start = next_entry.get(ledger, 0)
        changed.append((ledger, start, entries_of(unbatch(codec), batch_of(entries, first), start)))
        next_entry[ledger] = start + len(changed[-1][2])
    check_checksums(changed)
    columns = [name for name in ALL if name not in PLACES]
    found = decoded(topic, changed, columns=columns, include_markers=True)
    assert found == [{name: row[name] for name in columns} for row in rows]


def check_settled(topic: str, batches: Batches, is_aborted: Callable[[tuple[int, int]], bool]) -> None:
    """Check what stays visible, sizes, frames, and all that is of no transaction."""
    changed, hidden = [], set()
    for ledger, first, entries in batches:
        known = {first + i: one for i, one in enumerate(map(transaction_of, entries)) if one is not None}
        hides = [entry for entry, one in known.items() if is_aborted(one)]
        transform = settle(hides, [entry for entry in known if entry not in hides])
        changed.append((ledger, first, entries_of(transform, batch_of(entries, first), first)))
        hidden |= {(ledger, entry) for entry in hides}
    rows = decoded(topic, batches, columns=ALL)
    expected = [{**row, **dict.fromkeys(MARKS)} for row in rows if (row["ledger_id"], row["entry_id"]) not in hidden]
    assert decoded(topic, changed, columns=ALL) == expected
    check_checksums(changed)
    markers = []
    for (ledger, first, before), (_, _, after) in zip(batches, changed, strict=True):
        for entry, (old, new) in enumerate(zip(before, after, strict=True), first):
            assert len(old) == len(new)
            if transaction_of(old) is None:
                assert old == new
                continue
            (front, mine, payload), (new_front, changed_meta, new_payload) = parts_of(old), parts_of(new)
            assert front[:-4] == new_front[:-4] or (front == new_front == b"")
            if (ledger, entry) in hidden:
                assert_is_marker(old, new)
                markers.append(new)
            else:
                assert payload == new_payload
                assert_differs_in_tags(mine, changed_meta)
    rows = rows_of(markers, without=(*PLACES, *MARKS)) if markers else []
    assert len(rows) == len(markers)
    assert all(row["key"] is None and row["properties"] == [] for row in rows)


def transformed_of(transform: EntryTransform, batches: Batches) -> Batches:
    """Return a topic after a transform that keeps ids."""
    changed = [
        (ledger, first, entries_of(transform, batch_of(entries, first), first)) for ledger, first, entries in batches
    ]
    check_checksums(changed)
    return changed


def check_checksums(batches: Batches) -> None:
    for ledger, _, entries in batches:
        assert set(check_entries(batch_of(entries)).states) <= {EntryState.VALID, EntryState.NO_CHECKSUM}, ledger
