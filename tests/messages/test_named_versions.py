"""The versions that messages name, found by a walk over metadata alone."""

import random
from pathlib import Path

import numpy as np
import pytest

from ledgerfs import open_bucket
from ledgerfs.formats.records import EntryBatch
from ledgerfs.formats.schemas.schema_info import version_number
from ledgerfs.messages.decode.named_versions import MOST_NAMED, named_versions
from tests.support.entries import frame, metadata


def batch_of(*entries: bytes) -> EntryBatch:
    lengths = np.array([len(entry) for entry in entries], np.int64)
    return EntryBatch(0, memoryview(b"".join(entries)), np.cumsum(lengths) - lengths, lengths)


def entry(version: bytes | None) -> bytes:
    made = metadata()
    if version is not None:
        made.schema_version = version
    return frame(made, b"value")


def number(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def test_each_number_once_and_only_pulsars_own() -> None:
    given = [entry(number(n)) for n in (3, 0, 3, 3, 7, 0)]
    others = [
        entry(None),
        entry(b""),
        entry(b"\0\0\0\1"),
        entry(number(-1)),
        b"",
        b"\x0e\x02",
        b"\x0e\x01\0\0\0\0",
        b"\xff" * 40,
    ]
    assert named_versions(batch_of(*given, *others)) == {0, 3, 7}
    assert named_versions(batch_of(*others)) == set()
    assert named_versions(batch_of()) == set()


def test_many_different_ones_take_no_more_time_than_room() -> None:
    assert len(named_versions(batch_of(*(entry(number(n)) for n in range(3 * MOST_NAMED))))) == MOST_NAMED


def test_whatever_the_bytes_nothing_breaks() -> None:
    chance, sound = random.Random(18), bytearray(entry(number(5)))
    for _ in range(3000):
        wrong = bytearray(sound)
        for _ in range(chance.randrange(1, 4)):
            wrong[chance.randrange(len(wrong))] = chance.randrange(256)
        named_versions(batch_of(bytes(wrong[: chance.randrange(len(wrong) + 1)]), bytes(sound)))
    assert named_versions(batch_of(bytes(wrong), bytes(sound))) >= {5}


@pytest.mark.parametrize("topic", ["avro-evolved", "type-changed", "prim-bytes", "avro-mixed-bytes", "json-pojo"])
def test_golden_ledgers_name_what_their_rows_name(topic: str, golden_typed: Path) -> None:
    opened = open_bucket(f"{golden_typed}/bucket").topic(f"public/typed/{topic}")
    found = set()
    for ledger in opened.ledgers:
        found |= set().union(*map(named_versions, ledger.batches(ledger.first_entry, ledger.last_entry)))
    column = opened.scan(["schema_version"]).to_arrow()["schema_version"].to_pylist()
    assert found == {version_number(one) for one in column} - {None}
