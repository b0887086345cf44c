"""Ledgers that one job writes together: all of them appear, or none, also when requests fail or its process is killed."""

from pathlib import Path

import pyarrow as pa
import pytest

from ledgerfs import open_bucket
from ledgerfs.errors import AccessDeniedError, LedgerExistsError, NotFoundError, UncertainWriteError
from ledgerfs.layouts.pulsar_blob.ledger_group import LedgerGroup, publish_all, remove_all
from ledgerfs.layouts.pulsar_blob.new_ledger import made_up_user_metadata
from ledgerfs.layouts.pulsar_blob.writer import UnindexedLedger, publish
from ledgerfs.messages.encode.rows import EncodeOptions
from ledgerfs.repair import plan_repair
from ledgerfs.storage.object_store import RawStore
from ledgerfs.writing.admission import publish_together
from ledgerfs.writing.claims import IfExists
from ledgerfs.writing.ledger_rows import MessageRows, write_rows
from ledgerfs.writing.write import Wanted
from tests.support.ledgers import NAME
from tests.support.s3 import Fault, FaultProxy, S3Server
from tests.support.writes import Place, folder_place, s3_place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return folder_place(tmp_path / "bucket")


def assert_nothing(place: Place) -> None:
    assert place.objects() == set()
    assert place.uploads() == []


def data_of(store: RawStore, group: LedgerGroup, count: int) -> list[UnindexedLedger]:
    rows = pa.record_batch({"value": ["0", "1"]})
    marked = {**made_up_user_metadata(NAME), **group.mark}
    wanted = [Wanted(NAME, number, group.new_uuid(), user_metadata=marked) for number in range(count)]
    return [write_rows(store, one.new_ledger(), MessageRows(rows.schema, [rows]), EncodeOptions()) for one in wanted]


@pytest.fixture
def world(s3: S3Server, s3_bucket: str, proxy: FaultProxy) -> tuple[Place, RawStore]:
    """A bucket, and its store behind the proxy."""
    return s3_place(s3, s3_bucket), open_bucket(f"s3://{s3_bucket}", proxy.options).raw_store


def test_what_cannot_be_removed_again_is_named(world: tuple[Place, RawStore], proxy: FaultProxy) -> None:
    place, store = world
    group = LedgerGroup.new()
    made = data_of(store, group, 6)
    proxy.faults = [
        Fault("403", matches=lambda method, path, headers: method == "PUT" and "ledger-5-index" in path),
        Fault("403", matches=lambda method, path, headers: method == "DELETE" and "ledger-2-index" in path),
    ]
    with pytest.raises(UncertainWriteError, match="these may still exist: 2; delete them with `ledgerfs rm`"):
        publish_all(store, made)
    assert {key.partition("-ledger-")[2] for key in place.objects()} == {"2", "2-index"}
    # What Spark does next.
    with pytest.raises(AccessDeniedError):
        remove_all(store, group)
    proxy.faults = []
    remove_all(store, group)
    assert_nothing(place)


def test_of_two_groups_at_the_same_time_one_gives_way(world: tuple[Place, RawStore], proxy: FaultProxy) -> None:
    place, store = world
    ours, theirs = LedgerGroup.new(), LedgerGroup.new()
    made, other = data_of(store, ours, 1), data_of(store, theirs, 2)

    def come_between() -> None:
        publish_together(place.clean, NAME, IfExists.FAIL, other)

    proxy.faults = [
        Fault("", 1, lambda method, path, headers: method == "PUT" and ours.key_prefix in path, action=come_between)
    ]
    with pytest.raises(LedgerExistsError, match="already has ledger 0"):
        publish_together(open_bucket(place.url, proxy.options), NAME, IfExists.FAIL, made)
    assert len(place.ledgers()) == 2
    assert all(key.startswith(theirs.key_prefix) for key in place.objects())


def test_an_upload_under_way_cannot_complete_any_more(place: Place) -> None:
    store = place.clean.raw_store
    group = LedgerGroup.new()
    upload = store.writes.begin_upload(f"{group.new_uuid()}-ledger-0", {}, 5 << 20)
    upload.write(b"x" * (5 << 20))
    upload.end_part()
    assert len(place.uploads()) == 1
    remove_all(store, group)
    with pytest.raises(NotFoundError):
        upload.complete()
    upload.abort()
    assert_nothing(place)


def test_repair_completes_a_commit_that_was_cut_short(s3: S3Server, s3_bucket: str) -> None:
    place = s3_place(s3, s3_bucket)
    store = place.clean.raw_store
    group = LedgerGroup.new()
    made = data_of(store, group, 3)
    publish(store, made[1])
    plan = plan_repair(open_bucket(place.url, place.options), older_than_s=0)
    assert {one.ledger_id for one in plan.items if one.action is not None} == {0, 2}
    for _ in plan.carry_out():
        pass
    assert [ref.ledger_id for ref in open_bucket(place.url, place.options).catalog.refs()] == [0, 1, 2]


def test_repair_leaves_a_job_alone_that_published_nothing(s3: S3Server, s3_bucket: str) -> None:
    """Nobody can tell whether it was killed before it did, or a ledger's index was lost since."""
    place = s3_place(s3, s3_bucket)
    data_of(place.clean.raw_store, LedgerGroup.new(), 2)
    plan = plan_repair(open_bucket(place.url, place.options), older_than_s=0)
    assert [one.action for one in plan.items] == [None, None]
    assert all("left alone: it belongs to a job, and no ledger of this job exists" in one.reason for one in plan.items)
    named = plan_repair(open_bucket(place.url, place.options), ledgers=[1], older_than_s=0)
    assert [one.ledger_id for one in named.items if one.action is not None] == [1]
