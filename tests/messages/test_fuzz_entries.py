"""Golden entries with flipped, cut, inserted and copied bytes: an answer or our error, and the same whatever stands around them.

The work is done in a process of its own (`tests.support.noted_cases`), which a crash ends.
"""

import random
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ledgerfs import open_bucket
from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.decode.decryption import Decryptor, EncryptedDataKey, PrivateKeys
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.decode.payloads import Decrypt
from ledgerfs.messages.decode.table_schema import MESSAGE_SCHEMA
from tests.support.entries import TOPIC, frame, metadata
from tests.support.noted_cases import Note, counts_of

SEEDS, CASES = (1, 2), 200
LARGEST = 3_000
GUARD = 64
# What stands around an entry: nothing, what looks like the end of a varint, of a batch, of a property, and never-ending varints.
FILLERS = (b"\x00", b"\xff", b"\x22\x06\x0a\x01k\x12\x01v", b"\x00\x00\x00\x02\x18\x00")
INTERESTING = (0x00, 0x01, 0x04, 0x08, 0x0E, 0x20, 0x22, 0x25, 0x58, 0x7F, 0x80, 0xFF)


def golden_entries(golden: Path) -> dict[str, list[bytes]]:
    """Return the first, the last and some other small entries of every golden ledger, by topic."""
    bucket = open_bucket(f"file://{golden}/bucket")
    found: dict[str, list[bytes]] = {}
    for info in bucket.topics():
        entries: list[bytes] = []
        for ledger in bucket.topic(info.name).ledgers:
            all_of_it = [bytes(entry) for _, entry in ledger.read(0, min(ledger.last_entry, 400))]
            small = [entry for entry in all_of_it if len(entry) <= LARGEST] or [all_of_it[0][: LARGEST * 10]]
            entries += small[:3] + small[-3:] + small[:: max(1, len(small) // 6)]
        found[info.name] = entries
    return found


def mutated(entry: bytes, dice: random.Random) -> bytes:
    """Change an entry in one to four places, mostly in its head."""
    data = bytearray(entry)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        if not data:
            break
        at = dice.randrange(min(len(data), dice.choice((16, 90, 200, len(data)))))
        kind = dice.randrange(8)
        if kind <= 1:
            data[at] ^= 1 << dice.randrange(8)
        elif kind == 2:
            data[at] = dice.choice(INTERESTING)
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            del data[at : at + dice.randint(1, 12)]
        elif kind == 5:
            data[at:at] = bytes(dice.choices(INTERESTING, k=dice.randint(1, 10)))
        elif kind == 6:
            data[at : at + 1] = b"\xff" * dice.choice((4, 5, 8, 9, 10)) + b"\x01"
        else:
            start = dice.randrange(len(data))
            data[at:at] = data[start : start + dice.randint(1, 40)]
    return bytes(data)


def guarded(entries: list[bytes], filler: bytes) -> EntryBatch:
    """Return entries with filler before, between and after them."""
    guard = (filler * GUARD)[:GUARD]
    lengths = np.array([len(entry) for entry in entries], np.int64)
    offsets = np.cumsum(lengths) - lengths + GUARD * np.arange(1, len(entries) + 1)
    buffer = guard + b"".join(entry + guard for entry in entries)
    return EntryBatch(0, memoryview(buffer), offsets, lengths)


def outcome_of(batch: EntryBatch, options: dict[str, Any], decrypt: Decrypt | None) -> tuple[str, Any]:
    """Return what decoding gives, in a form that compares."""
    decoder = TopicDecoder(TOPIC, DecodeOptions(**options), decrypt)
    try:
        table = decoder.decode(batch, 1, *decoder.walk(batch, 1))
    except LedgerfsError as error:
        return "error", str(error)
    table.validate(full=True)
    columns = [column.to_pylist() if column.type.id != _TIME else column.cast("int64").to_pylist() for column in table]
    return "rows", (columns, decoder.skipped, decoder.chunks.finish())


_TIME = MESSAGE_SCHEMA.field("publish_time").type.id


def options_of(dice: random.Random) -> dict[str, Any]:
    few = dice.sample(MESSAGE_SCHEMA.names, dice.randint(1, 4))
    return {
        "columns": dice.choice((MESSAGE_SCHEMA.names, MESSAGE_SCHEMA.names, few)),
        "check_checksums": False,
        "on_corrupt": dice.choice(("skip", "skip", "raise")),
        "on_encrypted": dice.choice(("null", "skip", "raise")),
        "include_markers": dice.random() < 0.5,
        "max_message_bytes": 1 << 20,
    }


def cases(entries: dict[str, list[bytes]], seed: int) -> Iterator[tuple[list[bytes], dict[str, Any]]]:
    dice = random.Random(seed)
    names = sorted(entries)
    while True:
        some = [mutated(dice.choice(entries[dice.choice(names)]), dice) for _ in range(dice.choice((1, 4, 16)))]
        yield some, options_of(dice)


def decrypt_with(golden: Path) -> Decrypt:
    decryptor = Decryptor(PrivateKeys.of({"golden.key": golden / "keys" / "private.pem"}))
    return lambda keys, iv, payload: decryptor.decrypt([EncryptedDataKey(*key) for key in keys], iv, payload)


def work(golden: Path, note: Note) -> None:
    """Try the cases of all seeds."""
    entries = golden_entries(golden)
    decrypt = decrypt_with(golden)
    counts = {"tried": 0, "rows": 0}
    for seed in SEEDS:
        for number, (some, options) in enumerate(islice(cases(entries, seed), CASES)):
            key = decrypt if number % 2 else None
            note.write({"entries": [entry.hex() for entry in some], "options": options, "key": number % 2})
            outcomes = [outcome_of(guarded(some, filler), options, key) for filler in FILLERS]
            assert all(outcome == outcomes[0] for outcome in outcomes), (
                "the outcome depends on what stands around the entries"
            )
            counts["tried"] += 1
            counts["rows"] += outcomes[0][0] == "rows"
    note.write(counts)


@pytest.mark.long
def test_damaged_entries_are_an_answer_or_our_error_whatever_stands_around_them(golden, tmp_path):
    counts = counts_of("tests.messages.test_fuzz_entries", golden, folder=tmp_path)
    assert counts["tried"] == CASES * len(SEEDS)
    assert counts["rows"] > CASES * len(SEEDS) * 0.3


def test_an_encryption_key_that_is_no_message_is_our_error_that_names_the_entry():
    """The walk does not look into a key's bytes, the decryption does."""
    entry = frame(metadata().SerializeToString() + b"\x6a\x02\xff\xff", b"abc", checksum=False)
    batch = guarded([entry], b"\x00")
    decoder = TopicDecoder(TOPIC, DecodeOptions(), lambda keys, iv, payload: bytes(payload))
    with pytest.raises(LedgerfsError, match="entry 1:0"):
        decoder.decode(batch, 1, *decoder.walk(batch, 1))


def test_entries_that_are_sound_do_not_depend_on_what_stands_around_them(golden):
    for name, entries in golden_entries(golden).items():
        options = {"columns": MESSAGE_SCHEMA.names, "on_encrypted": "null"}
        outcomes = [outcome_of(guarded(entries, filler), options, None) for filler in FILLERS]
        assert outcomes[0][0] == "rows", name
        assert all(outcome == outcomes[0] for outcome in outcomes), name


if __name__ == "__main__":
    work(Path(sys.argv[1]), Note(Path(sys.argv[2])))
