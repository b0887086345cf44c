"""Payloads that hold records made to look like the ledger's own: a producer chooses its bytes, and knows the ids that come."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerfs.errors import CorruptLedgerError, StaleObjectError
from ledgerfs.layouts.pulsar_blob.learned_offsets import LearnedOffsets
from ledgerfs.layouts.pulsar_blob.reader import PulsarLedgerReader
from tests.support.each import for_each
from tests.support.ledgers import Offload, offload, put_in_folder, record
from tests.support.remote import remote_ledger

MIB = 1 << 20
FORGED = 1627
CARRIER = 4000
"""The entry whose payload holds records of itself and of those before it, and ends where the last of them does."""


def true_entry(entry_id: int) -> bytes:
    return entry_id.to_bytes(4, "big") * 250


def forged_payload() -> bytes:
    return b"".join(record(i, b"forged!!" * 200) for i in range(CARRIER - FORGED + 1, CARRIER + 1))


ENTRIES = [true_entry(i) if i != CARRIER else forged_payload() for i in range(6000)]


@pytest.fixture(scope="module")
def made() -> Offload:
    """One block in which a guess from the entries' average size leads into the payload of one of them."""
    return offload(ENTRIES, block_size=64 * MIB)


@pytest.fixture(scope="module")
def url(made: Offload, tmp_path_factory: pytest.TempPathFactory) -> str:
    return put_in_folder(tmp_path_factory.mktemp("forged"), made)


def reader(url: str, offsets: LearnedOffsets | None = None) -> PulsarLedgerReader:
    ledger, _ = remote_ledger(url)
    made = PulsarLedgerReader(ledger.store, ledger.ref)  # type: ignore[arg-type]
    if offsets is not None:
        made.places.learned = offsets
    return made


def all_of(ledger: PulsarLedgerReader, first: int = 0) -> Iterator[tuple[int, bytes]]:
    for batch in ledger.batches(first, ledger.last_entry):
        for entry_id, data in batch:
            yield entry_id, bytes(data)


@for_each("entry", [2400, 3000, 3900, CARRIER - 1, CARRIER, CARRIER + 1, 5999])
def test_single_entries_are_never_those_inside_of_a_payload(url: str, entry: int) -> None:
    ((_, data),) = reader(url).read(entry, entry)
    assert bytes(data) == ENTRIES[entry]


def test_a_pass_begins_nowhere_but_at_a_record(url: str) -> None:
    offsets = LearnedOffsets()
    ledger = reader(url, offsets)
    for entry in (3000, 3500, 3900, 5000):
        ledger.read(entry, entry)
    for first in range(CARRIER - FORGED - 10, CARRIER + 10, 97):
        assert list(all_of(reader(url, offsets), first)) == list(enumerate(ENTRIES))[first:]


def wrong_place(made: Offload) -> LearnedOffsets:
    """Return places of which one, kept by nobody's fault but a disk's, is inside of a payload."""
    offsets = LearnedOffsets()
    forged = made.data.index(b"forged!!") - 12
    offsets.learn(CARRIER - FORGED + 1, forged)
    return offsets


def test_a_contradicted_walk_has_yielded_nothing_of_it_or_fails(tmp_path: Path) -> None:
    """The forged chain goes on with ids that nothing confirms: it breaks where the true entries go on, which is not skipped as damage."""
    entries = [*ENTRIES]
    entries[CARRIER] = forged_payload()[:-1612]
    made = offload(entries, block_size=64 * MIB)
    url = put_in_folder(tmp_path, made)
    first = CARRIER - FORGED + 5
    offsets = wrong_place(made)
    ledger = reader(url, offsets)
    with pytest.raises(StaleObjectError, match="again"):
        list(all_of(ledger, first))
    assert len(offsets) == 0
    assert list(all_of(ledger, first)) == list(enumerate(entries))[first:]
    skipped: list[tuple[int, int, CorruptLedgerError]] = []
    with pytest.raises(StaleObjectError):
        list(reader(url, wrong_place(made)).batches(first, 5999, on_damage=lambda *reported: skipped.append(reported)))
    assert skipped == []
