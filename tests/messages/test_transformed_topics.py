"""Any topic that Pulsar could write, with its batches split: a reader sees the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.formats.decompression import Compression
from ledgerfs.messages.decode.entry_checksum import EntryState, check_entries
from ledgerfs.messages.transforms.unbatch import Unbatch
from tests.messages.test_decode_roundtrip import ALL, SETTINGS, TOPICS, decoded, topics
from tests.support.entries import batch_of
from tests.support.transforms import PLACES, entries_of


@pytest.mark.long
@SETTINGS
@given(topic=st.sampled_from(TOPICS), made=topics(), codec=st.sampled_from(Compression))
def test_everything_that_could_be_sent_reads_the_same(topic, made, codec):
    _, batches = made
    changed, next_entry = [], {}
    for ledger, first, entries in batches:
        start = next_entry.get(ledger, 0)
        changed.append((ledger, start, entries_of(Unbatch(codec), batch_of(entries, first), start)))
        next_entry[ledger] = start + len(changed[-1][2])
    for ledger, _, entries in changed:
        assert set(check_entries(batch_of(entries)).states) <= {EntryState.VALID, EntryState.NO_CHECKSUM}, ledger
    # Their places are other ones.
    columns = [name for name in ALL if name not in PLACES]
    rows = decoded(topic, batches, columns=columns, include_markers=True)
    assert decoded(topic, changed, columns=columns, include_markers=True) == rows
