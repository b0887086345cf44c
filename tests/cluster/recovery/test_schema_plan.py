"""Which steps give schemas the numbers again that messages carry, and when nothing does."""

import json
import struct

from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs_cluster.recovery.settings.schema_plan import MOST_STEPS, SchemaPlan, plan_schemas
from tests.support.each import for_each

TOPIC = "persistent://public/default/orders"


def avro(*fields: str) -> SchemaInfo:
    told = [{"name": name, "type": "string"} for name in fields]
    return SchemaInfo("AVRO", json.dumps({"type": "record", "name": "Row", "fields": told}).encode(), {"k": "v"})


def known(*schemas: SchemaInfo | None) -> list[SchemaVersion]:
    """Return versions from 0 on; None for a deletion."""
    return [
        SchemaVersion(number, SchemaInfo("NONE"), 10 * number + 10, is_deletion=True)
        if schema is None
        else SchemaVersion(number, schema, 10 * number + 10)
        for number, schema in enumerate(schemas)
    ]


A, B, C = avro("a"), avro("a", "b"), avro("a", "b", "c")
STRING = SchemaInfo("STRING")


def plan(versions: list[SchemaVersion], existing: list[SchemaVersion] | None = None, **told: object) -> SchemaPlan:
    return plan_schemas(TOPIC, versions, existing or [], **told)  # type: ignore[arg-type]


def test_each_number_is_a_step() -> None:
    made = plan(known(A, STRING, None, A, B))
    assert made.steps == (A, STRING, None, A, B)
    assert (made.there, made.lost, made.trouble, made.to_do) == (0, {}, None, 5)


def test_nothing_known_is_nothing_to_do() -> None:
    made = plan([])
    assert (made.steps, made.trouble, made.to_do) == ((), None, 0)
    assert plan([], known(A)).trouble is None


def test_a_lost_definition_in_between_lets_nothing_be_set() -> None:
    made = plan([known(A, B, C)[0], known(A, B, C)[2]])
    assert made.lost == {1: "nothing is known of it"}
    assert made.trouble is not None
    assert "version 1" in made.trouble
    assert made.to_do == 0


def test_deletions_take_the_numbers_of_lost_ones_if_that_is_wanted() -> None:
    versions = known(A, B, C)
    made = plan([versions[0], versions[2]], hides_lost=True)
    assert made.steps == (A, None, C)
    assert (made.trouble, made.to_do) == (None, 3)


def test_what_a_deletion_hides_need_not_be_known() -> None:
    versions = known(A, B, None, C)
    made = plan(versions[2:])
    assert made.steps == (None, None, None, C)
    assert (made.lost, made.trouble) == ({}, None)


@for_each(
    ("schema", "why"),
    [
        (SchemaInfo("NONE", unreadable="its bookies are lost"), "its bookies are lost"),
        (SchemaInfo("BYTES"), "type BYTES"),
        (SchemaInfo("AVRO", b"\xff"), "not UTF-8"),
        (SchemaInfo("KEY_VALUE", b"\0\0"), "is cut"),
        (A, "the same as version 0"),
        (SchemaInfo("AVRO", json.dumps(json.loads(A.data), indent=3).encode()), "the same as version 0"),
    ],
)
def test_what_no_broker_takes_is_lost(schema: SchemaInfo, why: str) -> None:
    made = plan(known(A, schema, C))
    assert list(made.lost) == [1]
    assert why in made.lost[1]


def test_the_same_schema_of_another_type_or_behind_a_deletion_is_another() -> None:
    made = plan(known(A, SchemaInfo("JSON", A.data), None, A))
    assert made.trouble is None
    assert len(made.steps) == 4


def test_numbers_beyond_all_reason_are_not_counted_up_to() -> None:
    made = plan([SchemaVersion(2**62, A, 10)])
    assert made.steps == ()
    assert str(MOST_STEPS) in str(made.trouble)


def test_a_forced_deletion_before_is_told() -> None:
    made = plan([*known(A, B, C), SchemaVersion(0, STRING, 1000)])
    assert (made.steps, made.former, made.trouble) == ((STRING,), (0, 1, 2), None)


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
    assert (made.there, made.conflict, made.to_do) == (there, None, max(0, 5 - there))


@for_each(
    ("existing", "why"),
    [
        (known(B), "another schema as version 0"),
        (known(A, B, C), "version 2 as a deletion"),
        (known(SchemaInfo("AVRO", A.data, {"other": "property"})), "another schema as version 0"),
        ([known(A, None)[1]], "deletion as version 1"),
        (known(A, B, None, None)[3:], "deletion as version 3"),
        (known(A, B, None, B)[2:], "another schema as version 3"),
        ([known(*STEPS, A, None)[6]], "deletion as version 6, behind all"),
        (known(A, B)[1:], "another schema as version 0"),
    ],
)
def test_what_is_there_already_is_never_contradicted(existing: list[SchemaVersion], why: str) -> None:
    made = plan(known(*STEPS), existing)
    assert why in str(made.conflict)
    assert made.to_do == 0


def test_pairs_of_bookkeeper_and_of_the_api_are_the_same() -> None:
    value = b'{"type":"fixed","size":1,"name":"F"}'
    properties = {"key.schema.type": "STRING", "value.schema.type": "AVRO"}
    stored = SchemaInfo("KEY_VALUE", struct.pack(">i", 0) + struct.pack(">i", len(value)) + value, properties)
    told = SchemaInfo("KEY_VALUE", b'{"key":"","value":' + value + b"}", properties)
    assert plan(known(stored), known(told)).conflict is None
    assert "the same as version 0" in plan(known(stored, told)).lost[1]


def test_thousands_of_versions_are_planned_in_one_pass() -> None:
    # As many steps as there may be, each compared with all before it.
    steps = [avro(f"f{number}") for number in range(MOST_STEPS)]
    assert plan(known(*steps)).trouble is None
    assert plan(known(*steps[:-1], steps[0])).lost == {
        MOST_STEPS - 1: "it is the same as version 0, of which a broker gives it the number"
    }
