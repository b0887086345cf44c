"""What became of the messages of transactions, by one walk over a topic: the same as a scan tells of each."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledgerfs import copy_ledgers, open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import CorruptMessageError
from ledgerfs.recovery.copies.settled_copies import Unsettled, unsettled
from tests.support.cluster_ends import cluster_end
from tests.support.entries import frame, metadata
from tests.support.ledgers import NAME, offload, put_in_folder

TOPIC = "persistent://public/default/orders"
COMMIT, ABORT, COMMITTING = 21, 22, 20
ENTRIES = st.sampled_from(
    [
        metadata(),
        metadata(marker_type=10),
        metadata(transaction_most=3),
        *(metadata(transaction_most=1, transaction_least=number) for number in range(3)),
        *(
            metadata(transaction_most=1, transaction_least=number, marker_type=kind)
            for number in range(3)
            for kind in (COMMIT, ABORT, COMMITTING)
        ),
    ]
)


def found_in(bucket: Bucket, name: str | None = NAME) -> Unsettled:
    return unsettled(bucket.readers_of(name, bucket.catalog))


def states_of(found: Unsettled) -> dict[tuple[int, int], str]:
    kinds = ("aborted", "open", "committed")
    return {
        (ledger, entry): kind
        for ledger, one in found.ledgers.items()
        for kind in kinds
        for entry in getattr(one, kind).tolist()
    }


def scanned(bucket: Bucket, topic: str = TOPIC) -> dict[tuple[int, int], str]:
    table = bucket.topic(topic).scan(["ledger_id", "entry_id", "txn_state"], transactions="all").to_table()
    return {
        (row["ledger_id"], row["entry_id"]): row["txn_state"]
        for row in table.to_pylist()
        if row["txn_state"] is not None
    }


@pytest.mark.long
@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    ledgers=st.lists(st.lists(ENTRIES, min_size=1, max_size=6), min_size=1, max_size=5),
    apart=st.sampled_from([3, 2**30, 2**31, 2**32]),
)
def test_outcomes_are_those_of_a_scan(ledgers, apart, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tier")
    made = [offload([frame(one, b"v") for one in some], apart * i, uuid=i + 1) for i, some in enumerate(ledgers)]
    bucket = open_bucket(put_in_folder(folder, *made))
    found = found_in(bucket)
    assert states_of(found) == scanned(bucket)
    for ledger, one in found.ledgers.items():
        assert one.uuid == bucket.ledger(ledger).ref.uuid
        for ids in (one.aborted, one.open, one.committed):
            assert ids.tolist() == sorted(ids.tolist())


def test_the_golden_topics(bucket):
    topic = "persistent://public/golden/txn"
    found = found_in(bucket, "public/golden/persistent/txn")
    assert states_of(found) == scanned(bucket, topic)
    assert {"aborted", "committed"} <= set(states_of(found).values())
    assert found_in(bucket, "public/golden/persistent/plain").ledgers == {}
    assert unsettled([]).ledgers == {}


def test_open_ones_are_what_is_wanted(tmp_path):
    of = {"transaction_most": 1}
    entries = [
        frame(metadata(transaction_least=1, **of)),
        frame(metadata(transaction_least=2, **of)),
        frame(metadata(transaction_least=3, **of)),
        frame(metadata(transaction_least=1, marker_type=COMMIT, **of)),
        frame(metadata(transaction_least=3, marker_type=ABORT, **of)),
    ]
    one = found_in(open_bucket(put_in_folder(tmp_path, offload(entries)))).ledgers[1]
    assert [ids.tolist() for ids in one.hidden_and_plain("aborted")] == [[1, 2], [0]]
    assert [ids.tolist() for ids in one.hidden_and_plain("committed")] == [[2], [0, 1]]


def of_transaction(**more):
    return frame(metadata(transaction_most=0, transaction_least=0, **more), b"v")


def test_ids_are_given_again_by_the_cluster_of_another_block(tmp_path):
    """An end in one block tells nothing of a message in another one, neither before nor after it."""
    ledgers = {
        1: [of_transaction(), of_transaction(marker_type=ABORT)],
        2: [of_transaction()],
        2**33: [of_transaction(), of_transaction(marker_type=COMMIT)],
        2**34: [of_transaction()],
    }
    made = [offload(entries, number, uuid=i) for i, (number, entries) in enumerate(ledgers.items(), 1)]
    ends = [cluster_end(2**32), cluster_end(3 * 2**32)]
    found = found_in(open_bucket(put_in_folder(tmp_path, *made, *ends)))
    expected = {(1, 0): "aborted", (2, 0): "aborted", (2**33, 0): "committed", (2**34, 0): "open"}
    assert states_of(found) == expected


def test_a_cluster_in_use_goes_on_in_another_block(tmp_path):
    """Something else was restored into it, and its ids were advanced; only later it was lost, and all of it restored."""
    ledgers = {
        1: [of_transaction()],
        2**33: [of_transaction(), of_transaction(marker_type=COMMIT)],
        2**34: [of_transaction()],
    }
    made = [offload(entries, number, uuid=i) for i, (number, entries) in enumerate(ledgers.items(), 1)]
    expected = {(1, 0): "committed", (2**33, 0): "committed", (2**34, 0): "open"}
    for ends in ((), (cluster_end(7 * 2**32),)):
        assert states_of(found_in(open_bucket(put_in_folder(tmp_path, *made, *ends)))) == expected


def test_what_was_made_of_a_ledger_is_of_its_cluster(tmp_path):
    """`offload --unbatch` gives ids of ledgerfs' own, or those that a user names: in any block."""
    target = f"file://{tmp_path / 'target'}"
    own = 2**52
    for number, name, entries in (
        (1, 2**40, [of_transaction()]),
        (2, own, [frame(metadata(), b"v"), of_transaction(marker_type=COMMIT)]),
        (2**32, own + 2**33, []),
        (2**33 + 1, own + 2**34, [of_transaction()]),
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        made = offload(entries, number, uuid=1) if entries else cluster_end(number)
        source = put_in_folder(folder, made)
        assert copy_ledgers(source, target, unbatch=True, ledger_id=name, allow_incomplete=True).copied == 1
    # Rows that were imported meanwhile are of no cluster, and their ids are in a block of their own.
    imported = offload([frame(metadata(), b"v")], own - 1 + 2**33, uuid=2, bookies=())
    put_in_folder(tmp_path / "target", imported)
    found = found_in(open_bucket(target))
    assert states_of(found) == {(2**40, 0): "committed", (own + 2**34, 0): "open"}


@pytest.mark.parametrize("marker", [None, ABORT])
def test_a_wrong_checksum_tells_nothing(tmp_path, marker):
    fields = {} if marker is None else {"marker_type": marker}
    entry = bytearray(frame(metadata(transaction_most=1, transaction_least=2, **fields), b"value"))
    entry[-1] ^= 1
    bucket = open_bucket(put_in_folder(tmp_path, offload([frame(metadata()), bytes(entry)])))
    with pytest.raises(CorruptMessageError, match="entry 1"):
        found_in(bucket)
