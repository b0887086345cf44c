import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import CorruptMetadataError
from ledgerfs.formats.ledger_metadata import (
    DigestType,
    Ensemble,
    LedgerMetadata,
    LedgerState,
    build_ledger_metadata,
    parse_ledger_metadata,
)
from ledgerfs.formats.proto.ledger_metadata_pb2 import LedgerMetadataRecord
from tests.support.each import for_each

MAX_INT64 = 2**63 - 1
NAME = b"public/default/persistent/orders"

quick = settings(deadline=None, max_examples=80)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), MAX_INT64)
text = st.text(st.characters(codec="utf-8"), max_size=8)


@st.composite
def ledgers(draw):
    last_entry = draw(st.integers(0, MAX_INT64 // 12 - 1))
    return LedgerMetadata(
        length=draw(st.integers(0, MAX_INT64 - 12 * (last_entry + 1))),
        last_entry=last_entry,
        ensemble_size=draw(int32),
        write_quorum=draw(int32),
        ack_quorum=draw(st.none() | int32),
        state=draw(int32),
        digest_type=draw(st.none() | int32),
        created_ms=draw(st.none() | st.integers(1, MAX_INT64)),
        ensembles=tuple(draw(st.lists(st.builds(Ensemble, int64, st.lists(text, max_size=3).map(tuple)), max_size=3))),
        custom=tuple(draw(st.lists(st.tuples(text, st.binary(max_size=8)), max_size=3))),
    )


def record(**fields):
    """Return a message with every field that a ledger needs, some of them replaced."""
    needed = {"write_quorum": 2, "ensemble_size": 3, "length": 100, "last_entry": 9, "state": 3}
    return LedgerMetadataRecord(**needed | fields)


def parse(message):
    return parse_ledger_metadata(message.SerializeToString(), key="object", offset=32)


@quick
@given(ledgers())
def test_any_ledger_round_trips(metadata):
    assert parse_ledger_metadata(build_ledger_metadata(metadata)) == metadata


def test_fields_have_the_numbers_of_bookkeeper():
    data = bytes.fromhex("0802 1003 18AC02 2009 2803 320D0A096C6F63616C3A31303010 07 3803 4802 5001 5A060A016B120176")
    assert parse_ledger_metadata(data) == LedgerMetadata(
        length=300,
        last_entry=9,
        ensemble_size=3,
        write_quorum=2,
        ack_quorum=2,
        state=LedgerState.CLOSED,
        digest_type=DigestType.CRC32C,
        created_ms=1,
        ensembles=(Ensemble(7, ("local:100",)),),
        custom=(("k", b"v"),),
    )


@for_each("field", ["write_quorum", "ensemble_size", "length", "last_entry", "state"])
def test_missing_required_field_is_named(field):
    message = record()
    message.ClearField(field)
    with pytest.raises(CorruptMetadataError, match=f"lacks its {field}") as caught:
        parse(message)
    assert (caught.value.key, caught.value.offset) == ("object", 32)


@for_each(
    ("length", "last_entry"),
    [
        (-1, 9),
        (-(2**63), 9),
        (100, -1),
        (100, -(2**63)),
        (MAX_INT64, 0),
        (0, MAX_INT64),
        (MAX_INT64, MAX_INT64),
        (MAX_INT64 - 12 * 10 + 1, 9),
        (0, MAX_INT64 // 12),
    ],
)
def test_sizes_that_no_ledger_has_are_corrupt(length, last_entry):
    with pytest.raises(CorruptMetadataError, match=f"length {length} and last entry {last_entry}") as caught:
        parse(record(length=length, last_entry=last_entry))
    assert (caught.value.key, caught.value.offset) == ("object", 32)


@pytest.mark.parametrize(
    ("length", "last_entry"), [(MAX_INT64 - 12 * 10, 9), (MAX_INT64 % 12, MAX_INT64 // 12 - 1), (0, 0)]
)
def test_largest_sizes_that_63_bits_count_parse(length, last_entry):
    metadata = parse(record(length=length, last_entry=last_entry))
    assert (metadata.length, metadata.last_entry) == (length, last_entry)
    assert metadata.records_size <= MAX_INT64


@for_each(("created", "expected"), [(-1, None), (0, None), (1, 1), (1632298336121, 1632298336121)])
def test_creation_time_that_is_not_stored_is_none(created, expected):
    assert parse(record(created_ms=created)).created_ms == expected


def test_unknown_creation_time_is_written_as_minus_one():
    built = LedgerMetadataRecord.FromString(build_ledger_metadata(parse(record())))
    assert built.HasField("created_ms")
    assert built.created_ms == -1


def test_password_is_never_written():
    assert not LedgerMetadataRecord.FromString(build_ledger_metadata(parse(record(password=b"x")))).HasField("password")


def test_text_that_is_not_utf8_is_kept_as_far_as_it_goes():
    message = record()
    message.ensemble.add(first_entry=0, bookie=[b"bookie-\xff:3181"])
    message.custom.add(key=b"\xffkey", value=b"\xffvalue")
    metadata = parse(message)
    assert metadata.ensembles == (Ensemble(0, ("bookie-\N{REPLACEMENT CHARACTER}:3181",)),)
    assert metadata.custom == (("\N{REPLACEMENT CHARACTER}key", b"\xffvalue"),)


@for_each(
    ("custom", "name"),
    [
        ([], None),
        ([(b"application", b"pulsar"), (b"component", b"managed-ledger")], None),
        ([(b"pulsar/managed-ledger", b"")], None),
        ([(b"Pulsar/Managed-Ledger", NAME)], None),
        ([(b"application", b"pulsar"), (b"pulsar/managed-ledger", NAME)], NAME.decode()),
        ([(b"pulsar/managed-ledger", NAME), (b"pulsar/managed-ledger", b"second")], NAME.decode()),
        ([(b"pulsar/managed-ledger", b"a\xff")], "a\N{REPLACEMENT CHARACTER}"),
        ([(b"pulsar/managed-ledger", "ü".encode())], "ü"),
    ],
)
def test_managed_ledger_is_the_name_in_the_custom_metadata(custom, name):
    message = record()
    for key, value in custom:
        message.custom.add(key=key, value=value)
    assert parse(message).managed_ledger == name


@for_each("data", [b"\xff", b"\x0a", b"\x08", b"\x1a\xff\xff\xff\xff\x07", b"not a message"])
def test_bytes_that_are_no_message_are_corrupt(data):
    with pytest.raises(CorruptMetadataError, match="not a protobuf message") as caught:
        parse_ledger_metadata(data, key="object", offset=32)
    assert (caught.value.key, caught.value.offset) == ("object", 32)


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=100), st.integers(0, 60), st.integers(0, 60))
def test_arbitrary_bytes_raise_nothing_else(data, at, end):
    valid = build_ledger_metadata(parse(record(created_ms=5, digest_type=3, ack_quorum=1)))
    for attempt in (data, valid + data, valid[:at] + data + valid[end:]):
        refused = None
        try:
            metadata = parse_ledger_metadata(attempt, key="object", offset=32)
        except CorruptMetadataError as error:
            refused = error
        if refused is None:
            assert metadata.entries >= 1
            assert metadata.entries * 12 <= metadata.records_size <= MAX_INT64
        else:
            assert (refused.key, refused.offset) == ("object", 32)
