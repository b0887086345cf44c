import base64
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import CorruptMetadataError, EntryRangeError, InvalidNameError
from ledgerfs.formats.ledger_metadata import (
    DigestType,
    Ensemble,
    LedgerState,
    parse_ledger_metadata,
)
from ledgerfs.formats.proto.ledger_metadata_pb2 import LedgerMetadataRecord
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import (
    LedgerNode,
    is_folder_of_ledgers,
    ledger_id_at,
    ledger_path,
    parse_ledger_node,
)
from tests.cluster.support.encoders import build_ledger_node
from tests.support.each import for_each

MAX_INT64 = 2**63 - 1
HEAD = b"BookieMetadataFormatVersion\t"
BOOKIES = ("192.0.2.1:1234", "192.0.2.2:1234", "192.0.2.3:1234")

quick = settings(deadline=None, max_examples=80)
text = st.text(st.characters(codec="utf-8"), max_size=8)
ids = st.integers(0, MAX_INT64)

VERSION_2 = HEAD + (
    b"2\nquorumSize: 2\nensembleSize: 3\nlength: 0\nlastEntryId: -1\nstate: IN_RECOVERY\nsegment {\n"
    b'  ensembleMember: "192.0.2.1:1234"\n  ensembleMember: "192.0.2.2:1234"\n  ensembleMember: "192.0.2.3:1234"\n'
    b'  firstEntryId: 0\n}\ndigestType: CRC32\npassword: "passwd"\nackQuorumSize: 2\n'
)
VERSION_3 = base64.b64decode(
    "Qm9va2llTWV0YWRhdGFGb3JtYXRWZXJzaW9uCTMKYAgCEAMYACD///////////8BKAEyMgoOMTkyLjAuMi4xOjMxODEKDjE5Mi4wLjIu"
    "MjozMTgxCg4xOTIuMC4yLjM6MzE4MRAAOANCBmZvb2JhckgBUP///////////wFgAA=="
)
"""BookKeeper's own samples, from the tests of its formats."""
RECOVERED = LedgerNode(59, LedgerState.IN_RECOVERY, 3, 2, 2, 0, -1, Digest(DigestType.CRC32), (Ensemble(0, BOOKIES),))


def parse(data, ledger_id=59):
    return parse_ledger_node(data, ledger_id, key="/ledgers/00/0000/L0059")


def refused(data):
    with pytest.raises(CorruptMetadataError) as caught:
        parse(data)
    assert caught.value.key == "/ledgers/00/0000/L0059"
    return caught.value


def message(**fields):
    """Return a node of version 3 with every field that a ledger needs, some of them replaced."""
    ensemble = LedgerMetadataRecord.Ensemble(first_entry=0, bookie=[b"a:1", b"b:1", b"c:1"])
    needed = {"write_quorum": 2, "ensemble_size": 3, "length": 100, "last_entry": 9, "state": 3, "ensemble": [ensemble]}
    return LedgerMetadataRecord(**needed | fields)


def node_of(record):
    data = record.SerializeToString()
    assert len(data) < 128
    return HEAD + b"3\n" + bytes([len(data)]) + data


def message_of(data):
    """Return the message in a node of version 3, without the length before it."""
    rest = data[len(HEAD) + 2 :]
    return rest[1 if rest[0] < 128 else 2 :]


@st.composite
def nodes(draw):
    size = draw(st.integers(1, 5))
    quorum = draw(st.integers(1, size))
    state = draw(st.sampled_from(list(LedgerState)))
    length, last_entry = 0, -1
    if state == LedgerState.CLOSED and draw(st.booleans()):
        last_entry = draw(st.integers(0, MAX_INT64 // 12 - 1))
        length = draw(st.integers(0, MAX_INT64 - 12 * (last_entry + 1)))
    firsts = [0, *sorted(draw(st.sets(st.integers(1, MAX_INT64), max_size=3)))]
    bookies = st.lists(text, min_size=size, max_size=size).map(tuple)
    return LedgerNode(
        ledger_id=draw(ids),
        state=state,
        ensemble_size=size,
        write_quorum=quorum,
        ack_quorum=draw(st.integers(1, quorum)),
        length=length,
        last_entry=last_entry,
        digest=Digest(draw(st.sampled_from(list(DigestType))), draw(st.binary(max_size=8))),
        ensembles=tuple(Ensemble(first, draw(bookies)) for first in firsts),
        custom=tuple(draw(st.lists(st.tuples(text, st.binary(max_size=8)), max_size=3))),
        created_ms=draw(st.none() | st.integers(1, MAX_INT64)),
    )


@quick
@given(nodes())
def test_any_node_round_trips(node):
    assert parse(build_ledger_node(node), node.ledger_id) == node


def test_the_samples_of_bookkeeper_are_read():
    assert parse(VERSION_2) == replace(RECOVERED, digest=Digest(DigestType.CRC32, b"passwd"))
    assert parse(VERSION_2 + b"ctime: 1544002383075\n").created_ms == 1544002383075
    assert parse(VERSION_3) == LedgerNode(
        ledger_id=59,
        state=LedgerState.OPEN,
        ensemble_size=3,
        write_quorum=2,
        ack_quorum=1,
        length=0,
        last_entry=-1,
        digest=Digest(DigestType.CRC32C, b"foobar"),
        ensembles=(Ensemble(0, ("192.0.2.1:3181", "192.0.2.2:3181", "192.0.2.3:3181")),),
    )


def test_golden_nodes_are_read_and_written_again(golden: Path):
    """Every ledger of a real cluster: its path, its node, and the same bytes again, but for the creator's mark at their end."""
    stored = json.loads((golden / "metadata.json").read_text())
    found = {}
    for path, value in stored.items():
        ledger_id = ledger_id_at(path)
        if ledger_id is None:
            continue
        data = base64.b64decode(value)
        node = found[ledger_id] = parse_ledger_node(data, ledger_id, key=path)
        assert ledger_path(ledger_id) == path
        assert message_of(build_ledger_node(node)) + b"\x60\x00" == message_of(data)
        assert (node.application, node.created_ms) == ("pulsar", None)
    assert len(found) > 100
    assert {node.component for node in found.values()} == {"managed-ledger", "schema", "compacted-ledger"}
    assert {node.digest.kind for node in found.values()} == {DigestType.CRC32, DigestType.CRC32C}
    assert {node.state for node in found.values()} == {LedgerState.OPEN, LedgerState.CLOSED}
    assert found[26].managed_ledger == "public/golden/persistent/plain"
    assert (found[26].length, found[26].last_entry, found[26].is_closed) == (51392, 199, True)
    assert found[4].component == "managed-ledger"


def test_a_closed_ledger_has_the_metadata_of_its_index_object(golden: Path):
    """The offloader writes the node's fields into the index, and the time of the node itself."""
    stored = json.loads((golden / "metadata.json").read_text())
    index = next((golden / "bucket").glob("*-ledger-26-index")).read_bytes()
    size = int.from_bytes(index[28:32], "big")
    embedded = parse_ledger_metadata(index[32 : 32 + size])
    node = parse_ledger_node(base64.b64decode(stored[ledger_path(26)]), 26, key=ledger_path(26))
    reported = replace(node, created_ms=embedded.created_ms).closed_at(node.last_entry, node.length)
    assert replace(reported, custom=tuple(sorted(reported.custom))) == replace(
        embedded, custom=tuple(sorted(embedded.custom))
    )


def test_entries_are_striped_over_the_ensemble_of_their_time():
    node = replace(RECOVERED, ensembles=(Ensemble(0, ("a", "b", "c")), Ensemble(20, ("a", "d", "c"))))
    assert [node.bookies_of(entry) for entry in (0, 1, 2, 3, 19, 20, 21, 10**18)] == [
        ("a", "b"),
        ("b", "c"),
        ("c", "a"),
        ("a", "b"),
        ("b", "c"),
        ("c", "a"),
        ("a", "d"),
        ("d", "c"),
    ]
    with pytest.raises(EntryRangeError):
        node.bookies_of(-1)


def test_ensembles_may_be_in_any_order():
    one, other = (LedgerMetadataRecord.Ensemble(first_entry=n, bookie=[b"x", b"y", b"%d" % n]) for n in (0, 7))
    ensembles = parse(node_of(message(ensemble=[other, one]))).ensembles
    assert [ensemble.first_entry for ensemble in ensembles] == [0, 7]


@pytest.mark.parametrize("state", [LedgerState.OPEN, LedgerState.IN_RECOVERY])
def test_nobody_knows_where_an_open_ledger_ends(state):
    node = parse(node_of(message(state=state, length=500, last_entry=70)))
    assert (node.length, node.last_entry, node.is_closed) == (0, -1, False)


def test_what_is_not_reported_has_the_value_of_bookkeeper():
    record = message(length=0)
    record.ClearField("last_entry")
    node = parse(node_of(record))
    assert (node.ack_quorum, node.digest, node.last_entry, node.created_ms) == (2, Digest(DigestType.CRC32), -1, None)


@for_each(
    ("fields", "reason"),
    [
        ({"length": -1}, "length -1 and last entry 9"),
        ({"length": 5, "last_entry": -1}, "length 5 and last entry -1"),
        ({"last_entry": -2, "length": 0}, "length 0 and last entry -2"),
        ({"length": MAX_INT64}, f"length {MAX_INT64} and last entry 9"),
        ({"last_entry": MAX_INT64}, f"length 100 and last entry {MAX_INT64}"),
        ({"state": 0}, "state 0 or digest 1"),
        ({"state": 4}, "state 4 or digest 1"),
        ({"digest_type": 5}, "state 3 or digest 5"),
        ({"write_quorum": 0}, "ack quorum 0, write quorum 0, ensemble size 3"),
        ({"write_quorum": 4}, "ack quorum 4, write quorum 4, ensemble size 3"),
        ({"ack_quorum": 3}, "ack quorum 3, write quorum 2, ensemble size 3"),
        ({"ack_quorum": 0}, "ack quorum 0, write quorum 2, ensemble size 3"),
        ({"ensemble_size": 4}, "the ensemble from entry 0 on has 3 bookies instead of 4"),
        ({"ensemble_size": 2**31 - 1}, f"has 3 bookies instead of {2**31 - 1}"),
        ({"ensemble": []}, "no ensemble for entry 0"),
        (
            {"ensemble": [LedgerMetadataRecord.Ensemble(first_entry=1, bookie=[b"a"] * 3)]},
            "no ensemble for entry 0",
        ),
        (
            {"ensemble": [LedgerMetadataRecord.Ensemble(first_entry=0, bookie=[b"a"] * 3)] * 2},
            "several ensembles from the same",
        ),
    ],
)
def test_ledgers_that_cannot_be_are_refused(fields, reason):
    assert reason in refused(node_of(message(**fields))).reason


@for_each("field", ["write_quorum", "ensemble_size", "length", "state"])
def test_missing_required_field_is_named(field):
    record = message()
    record.ClearField(field)
    assert refused(node_of(record)).reason == f"the ledger metadata lacks the field {field}"


@for_each(
    "data",
    [
        b"",
        b"foobar",
        HEAD,
        HEAD + b"3",
        HEAD + b"\n",
        HEAD + b"foobar\nblahblah",
        HEAD + b"123456789123456789\nblahblah",
        HEAD + b"-3\n",
        HEAD + "\u0663\n".encode(),
        b" " + VERSION_3,
    ],
)
def test_bytes_without_a_version_are_refused(data):
    assert refused(data).reason == "the node is not ledger metadata: it does not begin with a version"


@pytest.mark.parametrize("version", [0, 1, 4, 33])
def test_unknown_versions_are_refused(version):
    error = refused(HEAD + b"%d\n" % version + VERSION_3[len(HEAD) + 2 :])
    assert error.reason == f"the ledger metadata has an unknown version {version}"


@pytest.mark.parametrize("version", [VERSION_2, VERSION_3])
def test_a_node_that_is_cut_is_refused_or_lacks_its_end(version):
    for end in range(len(version)):
        refusal = None
        try:
            node = parse(version[:end])
        except CorruptMetadataError as error:
            refusal = error
        # Version 2 is text that does not tell how long it is: what is left may be an earlier state, never a closed ledger.
        assert refusal is not None or (version != VERSION_3 and not node.is_closed)


@for_each("size", [b"", b"\x80", b"\x5f", b"\x61", b"\xff\xff\xff\xff\x7f", b"\x80" * 9 + b"\x01", b"\xe0\x00"])
def test_a_message_of_another_length_than_reported_is_refused(size):
    at = len(HEAD) + 2
    if size == b"\xe0\x00":  # the right length in more bytes than it takes
        assert parse(VERSION_3[:at] + size + VERSION_3[at + 1 :]) == parse(VERSION_3)
    else:
        refused(VERSION_3[:at] + size + (VERSION_3[at + 1 :] if size[-1:] not in {b"", b"\x80"} else b""))


@for_each(
    "change",
    [
        (b"quorumSize: 2", b"quorumSize: two"),
        (b"IN_RECOVERY", b"ASLEEP"),
        (b"quorumSize: 2", b"quorumSize: 2 future: 3"),
        (b"ackQuorumSize: 2\n", b"ackQuorumSize: 2\nx {" * 3000),
        (b"ackQuorumSize: 2\n", b"segment {" * 3000),
        (b'"passwd"', b'"passwd'),
        (b"passwd", b"\xff\xfe"),
        (b"length: 0", b"length: 99999999999999999999"),
    ],
)
def test_text_of_version_2_is_checked(change):
    assert change[0] in VERSION_2
    refused(VERSION_2.replace(*change))


@settings(deadline=None, max_examples=150)
@given(st.sampled_from([VERSION_2, VERSION_3]), st.binary(max_size=60), st.integers(0, 200), st.integers(0, 200))
def test_any_bytes_are_a_ledger_or_refused(version, data, at, end):
    for attempt in (data, version[: len(HEAD) + 2] + data, version[:at] + data + version[end:]):
        refusal = None
        try:
            node = parse(attempt)
        except CorruptMetadataError as error:
            refusal = error
        if refusal is None:
            assert 1 <= node.ack_quorum <= node.write_quorum <= node.ensemble_size
            assert all(len(one.bookies) == node.ensemble_size for one in node.ensembles)
            assert all(one.first_entry < other.first_entry for one, other in pairwise(node.ensembles))
            assert len(node.bookies_of(0)) == node.write_quorum
        else:
            assert refusal.key == "/ledgers/00/0000/L0059"


@for_each(
    ("ledger_id", "path"),
    [
        (0, "/ledgers/00/0000/L0000"),
        (1, "/ledgers/00/0000/L0001"),
        (123456789, "/ledgers/01/2345/L6789"),
        (2**31 - 2, "/ledgers/21/4748/L3646"),
        (2**31 - 1, "/ledgers/000/0000/0021/4748/L3647"),
        (MAX_INT64, "/ledgers/922/3372/0368/5477/L5807"),
    ],
)
def test_paths_of_ledgers(ledger_id, path):
    assert ledger_path(ledger_id) == path
    assert ledger_id_at(path) == ledger_id


@quick
@given(ids, st.sampled_from(["/ledgers", "/pulsar/ledgers", ""]))
def test_any_ledger_is_found_by_a_walk(ledger_id, root):
    path = ledger_path(ledger_id, root)
    assert ledger_id_at(path, root) == ledger_id
    assert not is_folder_of_ledgers(path, root)
    folder = path.rpartition("/")[0]
    while folder != root:
        assert is_folder_of_ledgers(folder, root)
        assert ledger_id_at(folder, root) is None
        folder = folder.rpartition("/")[0]
    assert is_folder_of_ledgers(root, root)


def test_small_ids_may_have_long_paths():
    assert ledger_id_at("/ledgers/000/0000/0000/0000/L0001") == 1


@for_each(
    "path",
    [
        "/ledgers/LAYOUT",
        "/ledgers/INSTANCEID",
        "/ledgers/available",
        "/ledgers/available/127.0.0.1:3181",
        "/ledgers/cookies/127.0.0.1:3181",
        "/ledgers/underreplication/ledgers/0000/0000/0000/0001/urL0000000001",
        "/ledgers/idgen/ID-0000000001",
        "/ledgers/idgen-long/000",
        "/ledgers/L0000000001",
        "/ledgers/00/L0001",
        "/ledgers/00/0000/L001",
        "/ledgers/00/0000/L0001/x",
        "/ledgers/00/0000/L0001\n",
        "/ledgers/00/0000/0000/L0001",
        "/ledgers/999/9999/9999/9999/L9999",
        "/ledgers/00/000\u0663/L0001",
        "/other/00/0000/L0001",
        "/ledgersx/00/0000/L0001",
        "00/0000/L0001",
    ],
)
def test_other_nodes_are_neither_ledgers_nor_folders_of_them(path):
    assert ledger_id_at(path) is None
    assert not is_folder_of_ledgers(path)


@pytest.mark.parametrize("ledger_id", [-1, 2**63])
def test_numbers_of_no_ledger_have_no_path(ledger_id):
    with pytest.raises(InvalidNameError, match=str(ledger_id)):
        ledger_path(ledger_id)
