"""Hostile values between pages that nobody may touch: a byte read outside a payload, or written outside a buffer, kills the process.

The work is done in a process of its own (`tests.support.noted_cases`); `tests.messages.test_guarded_memory` has the method.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from ledgerfs.formats.schemas.avro_schema import parse_avro_schema
from ledgerfs.messages.values import arena
from ledgerfs.messages.values.avro_values import AvroDecoder
from ledgerfs.messages.values.key_values import InlineDecoder
from ledgerfs.messages.values.primitive_values import PRIMITIVE_TYPES, PrimitiveDecoder
from ledgerfs.messages.values.value_decoder import ValueDecoder
from tests.messages.test_fuzz_entries import mutated
from tests.messages.test_guarded_memory import check_guards, guarded_outputs, placed
from tests.support.avro import Model, schemas, zigzag
from tests.support.avro_pairs import readers
from tests.support.noted_cases import Note, counts_of

SEEDS, CASES, CHANGES = (1, 2), 250, 3
"""So many schemas of each seed, and so many changes of the payloads of each schema."""
LIES = tuple(map(zigzag, (0, 1, 2, 63, -1, -2, 2**31, 2**62, 2**63 - 1, -(2**63), 4000, 70_000)))


@st.composite
def cases(draw: Any) -> tuple[Any, Any, list[bytes], int]:
    """A schema, perhaps another one to read with, payloads, and what further chances follow from."""
    with_reader = draw(st.booleans())
    model = Model.of(draw(schemas(with_names=not with_reader)))
    reader = draw(readers(model.schema)) if with_reader else model.schema
    values = draw(st.lists(model.values(), max_size=6))
    return (
        model.schema,
        reader,
        [model.encode(one, blocks=draw(st.booleans())) for one in values],
        draw(st.integers(0, 2**32)),
    )


def changed(payload: bytes, dice: random.Random) -> bytes:
    """Return a payload as it is, cut, with lies, or with other bytes."""
    at = dice.randrange(len(payload) + 1)
    match dice.randrange(6):
        case 0:
            return payload
        case 1:
            return payload[:at]
        case 2:
            return payload[:at] + dice.choice(LIES) + payload[at:]
        case 3:
            return payload[:at] + dice.choice(LIES) + payload[at + 1 :]
        case 4:
            return dice.choice(LIES) * dice.randrange(4)
        case _:
            return mutated(payload, dice)


def pair(key: bytes, value: bytes, dice: random.Random) -> bytes:
    """Return two parts as INLINE has them, or with sizes that lie."""
    sizes = [dice.choice([len(one)] * 6 + [len(one) + 1, -1, -2, 2**31 - 1, -(2**31), 0]) for one in (key, value)]
    made = b"".join(size.to_bytes(4, "big", signed=True) + one for size, one in zip(sizes, (key, value), strict=True))
    return made[: dice.randrange(len(made) + 1)] if dice.random() < 0.2 else made


def decode_all(decoder: ValueDecoder, rows: list[bytes], dice: random.Random) -> int:
    """Decode rows each of which lies between forbidden pages; return how many could be."""
    slots = placed(rows, at_end=dice.random() < 0.7)
    starts = np.array(slots.starts, np.int64)
    ends = starts + np.array([len(row) for row in rows], np.int64)
    valid = np.array([dice.random() < 0.9 for _ in rows], np.bool_)
    data = np.frombuffer(memoryview(slots.map).toreadonly(), np.uint8)
    array, reasons = decoder.decode(data, starts, ends, None if dice.random() < 0.3 else valid)
    array.validate(full=True)
    assert len(array) == len(rows) == reasons.size
    return int((reasons == 0).sum())


def work(note: Note) -> None:
    """Try the cases of all seeds."""
    check_guards()
    counts = {"tried": 0, "rows": 0}

    def run(case: tuple[Any, Any, list[bytes], int]) -> None:
        writer, reader, whole, chance = case
        dice = random.Random(chance)
        decoder = AvroDecoder.of(
            *(parse_avro_schema(json.dumps(one)) for one in (writer, reader)), dice.choice((0, 0, 0, 5))
        )
        for _ in range(CHANGES):
            rows = [changed(one, dice) for one in whole]
            note.write({"writer": writer, "reader": reader, "rows": [one.hex() for one in rows], "chance": chance})
            counts["tried"] += 1
            if decoder.program.constants:  # they are put behind a copy of all bytes, forbidden ones too
                return
            counts["rows"] += decode_all(decoder, rows, dice)
            name = dice.choice(sorted(PRIMITIVE_TYPES))
            counts["rows"] += decode_all(
                PrimitiveDecoder(name), [dice.randbytes(dice.choice((1, 2, 4, 8, 8, 12, 16, 5))) for _ in rows], dice
            )
            pairs = [pair(row, dice.randbytes(dice.choice((1, 2, 4, 8, 12, 16))), dice) for row in rows]
            counts["rows"] += decode_all(InlineDecoder(decoder, PrimitiveDecoder(name)), pairs, dice)

    arena.MOST_KEPT = 0  # each has forbidden pages of its own
    options = settings(
        max_examples=CASES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with guarded_outputs():
        for number in SEEDS:
            seed(number)(options(given(cases())(run)))()
    note.write(counts)


@pytest.mark.long
def test_nothing_is_read_outside_a_payload_or_written_outside_a_buffer(tmp_path: Path) -> None:
    counts = counts_of("tests.messages.values.test_guarded_values", folder=tmp_path)
    assert counts["tried"] >= CASES * len(SEEDS)
    assert counts["rows"] > CASES * len(SEEDS)


if __name__ == "__main__":
    work(Note(Path(sys.argv[1])))
