"""Any topic that Pulsar could write, after each transform: a reader sees the same, and all that a transform need not change stays.

Drawing a topic takes longer than all that is done with it, so that one test does it all.
"""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.messages.decode.entry_checksum import EntryState, check_entries
from ledgerfs.messages.transforms.entry_transform import EntryTransform, recompress, unbatch
from tests.messages.test_decode_roundtrip import ALL, SETTINGS, TOPICS, decoded, topics
from tests.messages.test_recompress import NAMES, fields_of, parts_of
from tests.support.entries import batch_of
from tests.support.transforms import PLACES, entries_of

Batches = Sequence[tuple[int, int, list[bytes]]]


@pytest.mark.long
@SETTINGS
@given(topic=st.sampled_from(TOPICS), made=topics(), codec=st.sampled_from(NAMES))
def test_everything_that_could_be_sent_reads_the_same(topic, made, codec):
    _, batches = made
    rows = decoded(topic, batches, columns=ALL, include_markers=True)
    check_recompressed(topic, batches, codec, rows)
    check_unbatched(topic, batches, codec, rows)


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
