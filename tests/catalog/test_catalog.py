"""The catalog: what it counts, what it costs, what it does with all that a bucket may hold."""

import os
import uuid
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs import open_bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import LEDGER
from ledgerfs.catalog.listing import FOREIGN
from ledgerfs.errors import (
    CorruptIndexError,
    MissingLedgerError,
    NotFoundError,
)
from ledgerfs.formats.pulsar_blob.object_names import KeyKind
from ledgerfs.formats.uuid_halves import uuid_from_halves, uuid_halves
from ledgerfs.layouts.pulsar_blob.columns import match_rows
from ledgerfs.layouts.pulsar_blob.fragments import fragments_of
from ledgerfs.layouts.pulsar_blob.index_rows import IndexDigests
from ledgerfs.storage.objects import ReadRequest
from tests.support.ledgers import CREATED_MS, offload, put_in_folder
from tests.support.remote import RemoteFolder
from tests.support.s3 import Fault, FaultProxy, S3Server


def test_topics_are_summed_up(tmp_path: Path) -> None:
    url = put_in_folder(
        tmp_path,
        offload([b"12345"] * 3, 1, uuid=1),
        offload([b"123"], 2, uuid=2, created_ms=CREATED_MS - 5000),
        offload([b"1"], 3, uuid=3, name="a/b/persistent/c%20d%2B", created_ms=None),
    )
    other, orders = open_bucket(url).topics()
    assert (orders.name, orders.ledgers, orders.entries, orders.bytes) == (
        "persistent://public/default/orders",
        2,
        4,
        18,
    )
    assert orders.created_ms == CREATED_MS - 5000
    newest = max((tmp_path / f"{offload([b''], i, uuid=i).uuid}-ledger-{i}-index").stat().st_mtime for i in (1, 2))
    assert abs(orders.uploaded_ms / 1000 - newest) < 0.01
    assert orders.created.isoformat() == "2023-11-14T22:13:15+00:00"
    assert orders.uploaded.timestamp() == orders.uploaded_ms / 1000
    assert (other.name, other.managed_ledger, other.created_ms) == (
        "a/b/persistent/c%20d%2B",
        "a/b/persistent/c%20d%2B",
        None,
    )


def test_the_newest_complete_copy_is_the_one_to_read(tmp_path: Path) -> None:
    made = [offload([b"x"] * 5, 7, uuid=i) for i in (1, 2, 3)]
    url = put_in_folder(tmp_path, *made)
    for age, one in zip((30, 20, 10), made, strict=True):
        os.utime(tmp_path / f"{one.uuid}-ledger-7-index", (1_700_000_000 - age, 1_700_000_000 - age))
    (tmp_path / f"{made[2].uuid}-ledger-7").write_bytes(made[2].data[:-1])
    catalog = open_bucket(url).catalog
    assert [ref.uuid for ref in catalog.refs()] == [made[1].uuid, made[0].uuid, made[2].uuid]
    assert catalog.find(7).uuid == made[1].uuid
    assert catalog.find(7, uuid=made[0].uuid).copy == 1
    assert [topic.ledgers for topic in catalog.topics()] == [1]


def test_every_topic_that_is_listed_can_be_opened(tmp_path: Path) -> None:
    names = ["public/default/persistent/orders", "persistent://public/default/orders", "cursors/x", None]
    url = put_in_folder(tmp_path, *(offload([b"%d" % i], i, uuid=i, name=name) for i, name in enumerate(names, 1)))
    bucket = open_bucket(url)
    assert bucket.topic("persistent://public/default/orders").ledgers[0].ref.ledger_id == 1
    for topic in bucket.topics():
        assert bucket.topic(topic.name).ledgers
    assert bucket.ledger(4, topic="_unknown").ref.managed_ledger is None


def test_nothing_in_a_bucket_is_fatal_and_all_of_it_is_reported(tmp_path: Path) -> None:
    whole, orphan, lost, broken = (offload([b"x"], i, uuid=i) for i in (1, 2, 3, 4))
    url = put_in_folder(tmp_path, whole, orphan, lost, broken)
    (tmp_path / f"{orphan.uuid}-ledger-2-index").unlink()
    (tmp_path / f"{lost.uuid}-ledger-3").unlink()
    (tmp_path / f"{broken.uuid}-ledger-4-index").write_bytes(b"nonsense")
    for name in ("notes.txt", whole.uuid, f"{whole.uuid}-index", f"{whole.uuid}_00000001", f"{whole.uuid}-ledger-01"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "folder").mkdir()
    catalog = open_bucket(url).catalog
    assert [ref.ledger_id for ref in catalog.refs()] == [1]
    assert fragments_of(catalog).orphans["ledger_id"].tolist() == [2]
    assert catalog.lost["ledger_id"].tolist() == [3]
    assert [bad.key.ledger_id for bad in fragments_of(catalog).bad_indexes] == [4]
    assert isinstance(fragments_of(catalog).bad_indexes[0].error, CorruptIndexError)
    assert catalog.others.counts == {FOREIGN: 3, KeyKind.STREAMING.value: 2, KeyKind.GCS_PART.value: 1}
    for ledger_id, why in [
        (2, "no index"),
        (5, "no such ledger"),
        (2**80, "no such ledger"),
    ]:
        with pytest.raises(NotFoundError, match=why):
            catalog.find(ledger_id)
    with pytest.raises(MissingLedgerError, match="data object is missing"):
        catalog.find(3)
    with pytest.raises(CorruptIndexError):
        catalog.find(4)


def test_an_index_larger_than_any_is_not_read(tmp_path: Path) -> None:
    made = offload([b"x"], 1)
    url = put_in_folder(tmp_path, made)
    with (tmp_path / f"{made.uuid}-ledger-1-index").open("r+b") as sparse:
        sparse.truncate(1 << 40)
    (bad,) = fragments_of(open_bucket(url).catalog).bad_indexes
    assert "an index has at most" in str(bad.error)


def test_names_come_from_user_metadata_only_where_the_index_has_none(s3: S3Server, s3_bucket: str) -> None:
    named, nameless, unknown = (
        offload([b"x"], 1, uuid=1),
        offload([b"x"], 2, uuid=2, name=None),
        offload([b"x"], 3, uuid=3, name=None),
    )
    for made in (named, nameless, unknown):
        for key, data in made.objects.items():
            metadata = {"ManagedLedgerName": "t/n/persistent/old"} if made is not unknown else {}
            s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data, Metadata=metadata)
    catalog = open_bucket(f"s3://{s3_bucket}", s3.options).catalog
    assert {ref.ledger_id: ref.managed_ledger for ref in catalog.refs()} == {
        1: "public/default/persistent/orders",
        2: "t/n/persistent/old",
        3: None,
    }
    assert [topic.name for topic in catalog.topics()] == [
        "persistent://public/default/orders",
        "persistent://t/n/old",
        "_unknown",
    ]


def test_a_bit_of_an_index_that_flips_on_the_way_is_neither_believed_nor_kept(
    proxy: FaultProxy, s3: S3Server, s3_bucket: str
) -> None:
    for one in [offload([b"x" * i], i, uuid=i) for i in (1, 2, 3)]:
        for key, data in one.objects.items():
            s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data)
    right = open_bucket(f"s3://{s3_bucket}", s3.options).catalog
    proxy.faults = [Fault("flip", times=1, matches=lambda method, path, headers: path.endswith("-index"))]
    for _ in range(2):
        found = open_bucket(f"s3://{s3_bucket}", proxy.options).catalog
        assert (found.ledgers == right.ledgers).all()
        assert fragments_of(found).bad_indexes == ()


def test_etags_that_are_no_digests_cost_one_more_read(tmp_path: Path) -> None:
    made = offload([b"x"], 1)
    folder = put_in_folder(tmp_path, made).removeprefix("file://")
    store = RemoteFolder(folder)
    digests = IndexDigests(store)
    requests = [ReadRequest(f"{made.uuid}-ledger-1-index", 0, len(made.index), "0" * 32) for _ in range(3)]
    asked: list[ReadRequest] = []
    store.read_many = lambda found: (asked.append(one) or made.index for one in found)  # type: ignore[method-assign,misc,assignment,return-value]
    assert [digests.checked(request, made.index) for request in requests] == [made.index] * 3
    assert len(asked) == 1


def test_sums_of_hostile_lengths_do_not_wrap(tmp_path: Path) -> None:
    table = np.zeros(4, LEDGER)
    table["ledger_id"] = np.arange(4)
    table["length"], table["last_entry"] = 2**63 - 100, 2**59
    catalog = Catalog.of(["a/b/persistent/c"], table)
    assert catalog.topics()[0].bytes == 4 * (2**63 - 100)
    assert catalog.topics()[0].entries == 4 * (2**59 + 1)


def test_rows_are_matched_by_uuid_and_ledger() -> None:
    rng = np.random.default_rng(3)
    left, right = np.zeros(500, LEDGER), np.zeros(400, LEDGER)
    for table in (left, right):
        keys = rng.permutation(1000)[: table.size]
        table["uuid_high"], table["uuid_low"], table["ledger_id"] = keys % 3, keys % 7, keys
    expected = [next((i for i, row in enumerate(right) if row["ledger_id"] == one["ledger_id"]), -1) for one in left]
    assert match_rows(left, right).tolist() == expected
    assert match_rows(left[:0], right).size == 0
    assert match_rows(left, right[:0]).tolist() == [-1] * 500


@settings(deadline=None, max_examples=80)
@given(st.uuids())
def test_uuid_halves_are_those_of_the_number(value: uuid.UUID) -> None:
    assert uuid_halves(str(value)) == (value.int >> 64, value.int & (2**64 - 1))
    assert uuid_from_halves(*uuid_halves(str(value))) == str(value)
