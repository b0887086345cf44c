"""What numbers of schemas meant at the end, by all that is known; which steps give them these numbers again, and when nothing does."""

import hashlib
import itertools
import json
import struct

import pytest

from ledgerfs.errors import CorruptMetadataError
from ledgerfs.formats.schemas.schema_info import ANY_VERSION, BY_HAND, BY_IMPORT, SchemaInfo, SchemaVersion
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.formats.stored_schema import StoredVersion
from ledgerfs_cluster.recovery.dumped_cluster import DumpedSettings
from ledgerfs_cluster.recovery.settings.schemas import (
    MOST_STEPS,
    SchemaPlan,
    known_versions,
    last_generation,
    plan_schemas,
)
from ledgerfs_cluster.snapshot.answers import SchemaAnswer
from tests.cluster.support.encoders import build_locator, build_stored_schema
from tests.support.each import for_each

TOPIC = "persistent://public/default/orders"


# Generations.


def version(number: int, name: str, when: int | None, **reported: object) -> SchemaVersion:
    data = f'{{"type":"fixed","size":1,"name":"{name}"}}'.encode()
    return SchemaVersion(number, SchemaInfo("AVRO", data), when, **reported)  # type: ignore[arg-type]


def deletion(number: int, when: int | None = None, saved: int | None = None, **reported: str) -> SchemaVersion:
    return SchemaVersion(number, SchemaInfo("NONE"), when, is_deletion=True, saved_ms=saved, **reported)


def lost(number: int, when: int | None = None) -> SchemaVersion:
    return SchemaVersion(number, SchemaInfo("NONE", unreadable="its bookies are lost"), when)


def meaning(one: SchemaVersion) -> str:
    if one.is_deletion:
        return "deleted"
    return "lost" if one.schema.unreadable else one.schema.data.decode().split('"')[-2]


BEFORE = [version(0, "a", 10), version(1, "b", 20), version(2, "c", 30)]
AGAIN = [version(0, "a", 1000), version(1, "b", 1010)]
HAND, IMPORT = version(1, "h", None, source=BY_HAND, saved_ms=5), version(2, "i", None, source=BY_IMPORT)


@for_each(
    ("versions", "found"),
    [
        (BEFORE, {0: "a", 1: "b", 2: "c"}),
        ([], {}),
        # Of two generations the last one counts.
        ([*BEFORE, version(0, "x", 100), version(1, "y", 110)], {0: "x", 1: "y"}),
        # 1 of the last generation was never saved; that of before is older than 0 of the last one.
        ([*BEFORE[:2], version(0, "x", 100), version(2, "z", 120)], {0: "x", 2: "z"}),
        # What a restored cluster had by then ends nothing.
        ([*BEFORE, *AGAIN], {0: "a", 1: "b", 2: "c"}),
        ([*BEFORE, *AGAIN, version(2, "other", 1020)], {0: "a", 1: "b", 2: "other"}),
        ([version(0, "a", 10), version(0, "a", 100)], {0: "a"}),
        # A deletion without a time is of when it was saved.
        ([version(0, "a", 10), deletion(1, saved=50), version(2, "c", 40)], {0: "a", 1: "deleted", 2: "c"}),
        ([version(0, "a", 10), deletion(1, saved=5), version(2, "c", 40)], {0: "a", 2: "c"}),
        ([version(0, "a", 10), deletion(1, when=20)], {0: "a", 1: "deleted"}),
        ([version(0, "a", 10), deletion(1, saved=20)], {0: "a", 1: "deleted"}),
        ([*BEFORE[:2], version(0, "x", 100), deletion(1, saved=120)], {0: "x", 1: "deleted"}),
        # A lost definition stays lost unless it is known elsewhere; one that has a time is of no generation before.
        ([BEFORE[0], lost(1), BEFORE[2]], {0: "a", 1: "lost", 2: "c"}),
        ([BEFORE[0], lost(1), *BEFORE[1:]], {0: "a", 1: "b", 2: "c"}),
        (
            [BEFORE[1], version(0, "x", 100), lost(1, 120), version(2, "z", 120)],
            {0: "x", 1: "lost", 2: "z"},
        ),
        # Imports, and what users gave, stand for what no cluster registered.
        ([BEFORE[0], HAND, IMPORT], {0: "a", 1: "h", 2: "i"}),
        ([*BEFORE[:2], HAND], {0: "a", 1: "b"}),
        ([HAND, deletion(1, saved=6, source=BY_HAND)], {}),
        ([version(ANY_VERSION, "h", None, source=BY_HAND)], {}),
        ([version(0, "x", 100), BEFORE[1], HAND], {0: "x"}),
    ],
)
def test_what_numbers_mean_at_the_end(versions: list[SchemaVersion], found: dict[int, str]) -> None:
    """It is the same in whatever order versions come."""
    reported = [last_generation(order) for order in itertools.islice(itertools.permutations(versions), 24)]
    assert all(one == reported[0] for one in reported)
    assert {number: meaning(one) for number, one in reported[0].items()} == found


# What is known of a lost cluster.

NAME, LOST_TOPIC = "shop/eu/or+ders", "persistent://shop/eu/or ders-partition-2"
LONG, TEXT = SchemaInfo("AVRO", b'"long"', {"k": "v"}), SchemaInfo("JSON", b'"string"')


class Saved:
    """A place of saved schemas."""

    source = "here"

    def __init__(self, *versions: SchemaVersion) -> None:
        self._versions = versions

    def versions(self, topic: str) -> tuple[SchemaVersion, ...]:
        return self._versions

    def version(self, topic: str, number: int) -> tuple[SchemaVersion, ...]:
        return tuple(one for one in self._versions if one.version == number)


def dumped(*schemas: SchemaInfo | None, lost: tuple[int, ...] = (), damaged: tuple[int, ...] = ()) -> DumpedSettings:
    """Return a dump of a topic with versions from 0 on, None for a deletion; bookies have some no more."""
    stored: list[StoredVersion] = []
    answers: list[SchemaAnswer] = []
    for number, schema in enumerate(schemas):
        made = SchemaVersion(number, schema or SchemaInfo("NONE"), 100 + number, is_deletion=schema is None)
        payload = build_stored_schema(NAME, made, tuple(stored)) if number not in damaged else b"\xff"
        digest = hashlib.sha256(schema.data).digest() if schema else b""
        stored.append(StoredVersion(number, Position(7 + number, 0), digest))
        answer = (None, "no bookie has it") if number in lost else (payload, None)
        answers.append(SchemaAnswer(NAME, number, *answer))
    return DumpedSettings(locators={NAME: build_locator(stored)}, schemas={NAME: answers})


def test_a_dump_has_all_versions_deletions_too() -> None:
    found = known_versions(LOST_TOPIC, dumped(LONG, None, TEXT), [])
    assert [(one.version, one.schema, one.is_deletion, one.timestamp_ms) for one in found] == [
        (0, LONG, False, 100),
        (1, SchemaInfo("NONE"), True, 101),
        (2, TEXT, False, 102),
    ]
    # Also one whose entry is lost; it is as old as what is beside it.
    assert known_versions(LOST_TOPIC, dumped(LONG, None, TEXT, lost=(1,)), [])[1].is_deletion


def test_what_the_dump_lost_is_taken_from_what_was_saved_if_it_is_the_same() -> None:
    saved = Saved(SchemaVersion(0, LONG, 100), SchemaVersion(1, TEXT, 101))
    found = known_versions(LOST_TOPIC, dumped(LONG, TEXT, LONG, lost=(0, 1)), [saved])
    assert [(one.version, one.schema) for one in found] == [(0, LONG), (1, TEXT), (2, LONG), (0, LONG), (1, TEXT)]
    other = Saved(SchemaVersion(0, TEXT, 20), SchemaVersion(0, SchemaInfo("NONE"), None, is_deletion=True))
    found = known_versions(LOST_TOPIC, dumped(LONG, TEXT, lost=(0,)), [other])
    # It is as old as what is beside it, so nothing of a time before stands in for it.
    assert (found[0].schema.unreadable, found[0].timestamp_ms) == ("no bookie has it", 101)
    found = known_versions(LOST_TOPIC, DumpedSettings(), [saved, other])
    assert [one.version for one in found] == [0, 1, 0, 0]


def test_damaged_entries_are_lost_ones_and_a_damaged_locator_is_an_error() -> None:
    found = known_versions(LOST_TOPIC, dumped(LONG, TEXT, damaged=(1,)), [])
    assert "not a valid protobuf message" in found[1].schema.unreadable
    found = known_versions(LOST_TOPIC, DumpedSettings(locators=dumped(LONG, TEXT).locators), [])
    assert {(one.schema.unreadable, one.timestamp_ms) for one in found} == {("the dump does not contain it", None)}
    with pytest.raises(CorruptMetadataError):
        known_versions(LOST_TOPIC, DumpedSettings(locators={NAME: b"\xff"}), [])


# Steps.


def avro(*fields: str) -> SchemaInfo:
    reported = [{"name": name, "type": "string"} for name in fields]
    return SchemaInfo("AVRO", json.dumps({"type": "record", "name": "Row", "fields": reported}).encode(), {"k": "v"})


def known(*schemas: SchemaInfo | None) -> list[SchemaVersion]:
    """Return versions from 0 on; None for a deletion."""
    return [
        SchemaVersion(number, schema or SchemaInfo("NONE"), 10 * number + 10, is_deletion=schema is None)
        for number, schema in enumerate(schemas)
    ]


A, B, C = avro("a"), avro("a", "b"), avro("a", "b", "c")
STRING = SchemaInfo("STRING")
JSON_OF_A = SchemaInfo("JSON", A.data)


def plan(versions: list[SchemaVersion], existing: list[SchemaVersion] | None = None) -> SchemaPlan:
    return plan_schemas(TOPIC, versions, existing or [])


@for_each(
    ("versions", "steps"),
    [
        (known(A, STRING, None, A, B), (A, STRING, None, A, B)),
        ([], ()),
        # What a deletion hides need not be known.
        (known(A, B, None, C)[2:], (None, None, None, C)),
        # The same schema of another type, or behind a deletion, is another one.
        (known(A, JSON_OF_A, None, A), (A, JSON_OF_A, None, A)),
    ],
)
def test_each_number_is_a_step(versions: list[SchemaVersion], steps: tuple[SchemaInfo | None, ...]) -> None:
    made = plan(versions)
    assert (made.steps, made.there, made.lost, made.trouble) == (steps, 0, {}, None)


def test_nothing_known_is_nothing_to_compare() -> None:
    assert plan([], known(A)).trouble is None


def test_a_lost_definition_lets_nothing_be_set() -> None:
    versions = [known(A, B, C)[0], known(A, B, C)[2]]
    made = plan(versions)
    assert made.lost == {1: "no dump or saved schema contains it"}
    assert "version 1" in str(made.trouble)


@for_each(
    ("schema", "why"),
    [
        (SchemaInfo("NONE", unreadable="its bookies are lost"), "its bookies are lost"),
        (SchemaInfo("BYTES"), "type BYTES"),
        (SchemaInfo("AVRO", b"\xff"), "not UTF-8"),
        (SchemaInfo("KEY_VALUE", b"\0\0"), "is truncated"),
    ],
)
def test_what_no_broker_takes_is_lost(schema: SchemaInfo, why: str) -> None:
    made = plan(known(A, schema, C))
    assert list(made.lost) == [1]
    assert why in made.lost[1]


def test_numbers_beyond_all_reason_are_not_counted_up_to() -> None:
    made = plan([SchemaVersion(2**62, A, 10)])
    assert made.steps == ()
    assert str(MOST_STEPS) in str(made.trouble)


STEPS = (A, B, None, C, STRING)


@for_each(
    ("there", "existing"),
    [
        (0, []),
        (1, known(A)),
        (2, known(A, B)),
        (3, [known(A, B, None)[2]]),
        (4, known(A, B, None, C)[2:]),
        (5, known(A, B, None, C, STRING)[2:]),
        (6, known(A, B, None, C, STRING, A)[2:]),
    ],
)
def test_a_beginning_is_gone_on_with(there: int, existing: list[SchemaVersion]) -> None:
    made = plan(known(*STEPS), existing)
    assert (made.there, made.conflict) == (there, None)


@for_each(
    ("existing", "why"),
    [
        (known(B), "a different schema as version 0"),
        (known(A, B, C), "version 2 was a deletion in the lost cluster"),
        (known(SchemaInfo("AVRO", A.data, {"other": "property"})), "a different schema as version 0"),
        ([known(A, None)[1]], "deletion as version 1"),
        (known(A, B, None, None)[3:], "deletion as version 3"),
        (known(A, B, None, B)[2:], "a different schema as version 3"),
        ([known(*STEPS, A, None)[6]], "deletion as version 6, which hides all"),
        (known(A, B)[1:], "a different schema as version 0"),
    ],
)
def test_what_is_there_already_is_never_contradicted(existing: list[SchemaVersion], why: str) -> None:
    made = plan(known(*STEPS), existing)
    assert why in str(made.conflict)
    assert made.trouble == made.conflict


def test_pairs_of_bookkeeper_and_of_the_api_are_the_same() -> None:
    value = b'{"type":"fixed","size":1,"name":"F"}'
    properties = {"key.schema.type": "STRING", "value.schema.type": "AVRO"}
    stored = SchemaInfo("KEY_VALUE", struct.pack(">ii", 0, len(value)) + value, properties)
    reported = SchemaInfo("KEY_VALUE", b'{"key":"","value":' + value + b"}", properties)
    assert plan(known(stored), known(reported)).conflict is None
