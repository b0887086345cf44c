"""Settled copies: they show what was visible, lie beside their ledgers unnoticed, and are whole whoever writes them or is killed."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest

from ledgerfs import copy_ledgers, open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import (
    CorruptLedgerError,
    LedgerfsError,
    MissingLedgerError,
    RefusedLedgerError,
    UnplacedLedgersWarning,
)
from ledgerfs.formats.pulsar_blob.index import parse_index
from ledgerfs.formats.pulsar_blob.settled_uuids import is_settled_copy_of
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.recovery.copies.settled_copies import OpenAs, unsettled, write_settled
from ledgerfs.upkeep.repair import plan_repair
from ledgerfs.upkeep.verification import Severity, verify
from tests.model.meetings import MeetingStore
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.ledgers import NAME, Offload, offload, put_in_folder
from tests.support.s3 import S3Server

TOPIC = "persistent://public/default/orders"
COMMIT, ABORT = 21, 22
DAY_S = 86400


def sent(value: str, number: int = 0, **fields: Any) -> bytes:
    """Return a message, of a transaction unless its number is 0."""
    of_transaction = {"transaction_most": 7, "transaction_least": number} if number else {}
    return frame(metadata(**of_transaction, **fields), value.encode())


LEDGERS = {
    1: [sent("a"), sent("b committed", 1), sent("c aborted", 2), sent("d open", 3)],
    2: [sent("e committed", 1), sent("", 1, marker_type=COMMIT), sent("f"), sent("", 2, marker_type=ABORT)],
    3: [sent("g"), sent("h")],
}
VISIBLE = ["a", "b committed", "e committed", "f", "g", "h"]
SETTLED = (1, 2)


class Tier:
    """A folder with the topic; its objects are old enough for `repair`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = {number: offload(entries, number, uuid=number) for number, entries in LEDGERS.items()}
        put_in_folder(folder, *self.made.values())

    @property
    def bucket(self) -> Bucket:
        return open_bucket(str(self.folder))

    def settle(self, bucket: Bucket | None = None, open_as: OpenAs = "aborted") -> dict[int, LedgerRef]:
        bucket = self.bucket if bucket is None else bucket
        catalog = bucket.catalog
        readers = bucket.readers_of(NAME, catalog)
        found = unsettled(readers)
        return {one.ref.ledger_id: write_settled(bucket, one.ref, found, open_as) for one in readers}

    def objects(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}

    def remove(self, *keys: str) -> None:
        for key in keys:
            (self.folder / key).unlink()

    def age(self) -> None:
        then = time.time() - 3 * DAY_S
        for path in self.folder.iterdir():
            os.utime(path, (then, then))

    def values(self, **options: Any) -> list[str]:
        return [
            value.decode()
            for value in self.bucket.topic(TOPIC).scan(["value"], **options).to_table()["value"].to_pylist()
        ]

    def findings(self) -> list[tuple[str, str]]:
        return [
            (one.kind, one.severity.value) for one in verify(self.bucket).findings if one.kind != "no-user-metadata"
        ]

    def repairs(self) -> list[str]:
        """Plan repairs, carry out what can be, and return what that was."""
        self.age()
        plan = plan_repair(self.bucket)
        done = list(plan.carry_out())
        assert [one.error for one in done] == [None] * len(done)
        return [one.repair.action_name for one in done]


@pytest.fixture
def tier(tmp_path: Path) -> Tier:
    folder = tmp_path / "tier"
    folder.mkdir()
    return Tier(folder)


def uuids_of(copies: dict[int, LedgerRef]) -> dict[int, str]:
    return {number: ref.uuid for number, ref in copies.items()}


def keys_of(one: Offload | LedgerRef) -> list[str]:
    key = f"{one.uuid}-ledger-{one.ledger_id}"
    return [key, f"{key}-index"]


# --- what a copy is


@pytest.mark.parametrize(("open_as", "extra"), [("aborted", []), ("committed", ["d open"])])
def test_the_copies_alone_show_what_was_visible(tier: Tier, open_as: OpenAs, extra: list[str]) -> None:
    copies = tier.settle(open_as=open_as)
    for number in SETTLED:
        tier.remove(*keys_of(tier.made[number]))
    assert tier.values() == tier.values(transactions="all") == sorted([*VISIBLE, *extra])
    rows = tier.bucket.topic(TOPIC).scan(["txn_id"], transactions="all").to_table().to_pylist()
    assert {row["txn_id"] for row in rows} == {None}
    assert tier.findings() == []
    assert copies[3].uuid == tier.made[3].uuid


def test_sizes_blocks_and_metadata_are_those_of_the_ledger(tier: Tier) -> None:
    copies = tier.settle()
    for number in SETTLED:
        made, copy = tier.made[number], copies[number]
        data, index = (tier.objects()[key] for key in keys_of(copy))
        before, after = parse_index(made.index), parse_index(index)
        assert len(data) == len(made.data)
        assert (before.blocks, before.data_length) == (after.blocks, after.data_length)
        assert after.metadata.settled_from == made.uuid
        assert after.metadata == before.metadata.settled(made.uuid)
        assert copy.is_settled
        assert is_settled_copy_of(copy.uuid, made.uuid)
        assert not is_settled_copy_of(copy.uuid, tier.made[3].uuid)


def test_a_ledger_of_many_blocks_has_the_same_blocks(tmp_path: Path) -> None:
    entries = [sent(f"{i:0700000}", 1 + i % 2) for i in range(20)]
    entries += [sent("", 1, marker_type=COMMIT), sent("", 2, marker_type=ABORT)]
    made = offload(entries, 1, block_size=5 << 20)
    bucket = open_bucket(put_in_folder(tmp_path, made))
    (reader,) = bucket.readers_of(NAME, bucket.catalog)
    copy = write_settled(bucket, reader.ref, unsettled([reader]))
    index = parse_index((tmp_path / keys_of(copy)[1]).read_bytes())
    assert index.blocks == parse_index(made.index).blocks
    assert len(index.blocks) > 2
    assert copy.stored == len(made.data)


@pytest.mark.long
def test_on_s3_the_copy_has_the_ledgers_user_metadata(s3: S3Server, s3_bucket: str, golden: Path) -> None:
    name = "public/golden/persistent/txn"
    folder = golden / "bucket"
    described = json.loads((golden / "objects.json").read_text())
    for ref in open_bucket(str(folder)).catalog.refs_of(name):
        for _, stat in ref.objects:
            data, metadata = (folder / stat.key).read_bytes(), described[stat.key]["metadata"]
            s3.client.put_object(Bucket=s3_bucket, Key=stat.key, Body=data, Metadata=metadata)
    url = f"s3://{s3_bucket}"
    bucket = open_bucket(url, s3.options)
    topic = bucket.topic("persistent://public/golden/txn")
    before = topic.scan(["value", "entry_id"]).to_table()
    readers = bucket.readers_of(name, bucket.catalog)
    found = unsettled(readers)
    copies = [write_settled(bucket, one.ref, found) for one in readers]
    made = [(one.ref, copy) for one, copy in zip(readers, copies, strict=True) if copy.is_settled]
    assert made
    for ref, copy in made:
        for role in ("data", "index"):
            old, new = (bucket.store.head(one.object(role).key).metadata for one in (ref, copy))
            kept = {key: value for key, value in (old or {}).items() if key != "pulsarclustername"}
            assert new == {**kept, "ledgerfs-settled": ref.uuid}
        assert copy.stored == ref.stored
    assert [write_settled(bucket, one.ref, found) for one in readers] == copies
    for ref, _ in made:
        for _, stat in ref.objects:
            bucket.raw_store.writes.delete(stat.key)
    assert open_bucket(url, s3.options).topic(topic.name).scan(["value", "entry_id"]).to_table().equals(before)


# --- beside its ledger


def test_the_ledger_is_read_and_nothing_is_wrong(tier: Tier) -> None:
    every = tier.values(transactions="all")
    copies = tier.settle()
    assert tier.values() == VISIBLE
    assert tier.values(transactions="all") == every
    read = {ref.ledger_id: ref.uuid for ref in tier.bucket.catalog.refs() if ref.copy == 0}
    assert read == {number: made.uuid for number, made in tier.made.items()}
    assert tier.findings() == [("settled-copy", "remark")] * 2
    objects = tier.objects()
    assert tier.repairs() == []
    assert tier.objects() == objects
    assert uuids_of(tier.settle()) == uuids_of(copies)
    assert tier.objects() == objects


def test_copies_of_both_choices_lie_side_by_side(tier: Tier) -> None:
    first, second = tier.settle(), tier.settle(open_as="committed")
    assert first[1].uuid != second[1].uuid
    assert first[2].uuid == second[2].uuid
    assert tier.findings() == [("settled-copy", "remark")] * 3
    assert tier.values() == VISIBLE
    assert tier.repairs() == []


def test_a_settled_copy_is_read_while_the_ledger_is_damaged(tier: Tier) -> None:
    copies = tier.settle()
    data = tier.folder / keys_of(tier.made[1])[0]
    data.write_bytes(data.read_bytes()[:-1])
    assert tier.bucket.ledger(1).ref.uuid == copies[1].uuid
    assert tier.values() == VISIBLE
    with pytest.raises(CorruptLedgerError):
        write_settled(
            tier.bucket, next(ref for ref in tier.bucket.catalog.refs() if ref.uuid == tier.made[1].uuid), _found(tier)
        )
    objects = tier.objects()
    assert tier.repairs() == []
    assert tier.objects() == objects


def _found(tier: Tier) -> Any:
    """Return the messages of transactions of the topic as it was."""
    folder = tier.folder.parent / "as-it-was"
    folder.mkdir()
    whole = Tier(folder).bucket
    return unsettled(whole.readers_of(NAME, whole.catalog))


def test_without_its_index_the_ledger_is_missed_and_repaired(tier: Tier) -> None:
    """The settled copy has less than the ledger: it is not taken for another upload of it."""
    tier.settle()
    index = keys_of(tier.made[1])[1]
    tier.remove(index)
    tier.age()
    with pytest.warns(UnplacedLedgersWarning):
        tier.values()
    assert ("data-without-index", "damage") in tier.findings()
    plan = plan_repair(tier.bucket, topic=TOPIC, ledgers=[1])
    assert [one.error for one in plan.carry_out()] == [None]
    assert tier.values() == VISIBLE
    assert tier.bucket.ledger(1).ref.uuid == tier.made[1].uuid
    assert tier.bucket.topic(TOPIC).scan(transactions="all").to_table().num_rows == sum(map(len, LEDGERS.values())) - 2


def test_without_its_data_the_ledger_is_missed_and_its_index_kept(tier: Tier) -> None:
    tier.settle()
    data, index = keys_of(tier.made[1])
    tier.remove(data)
    assert tier.repairs() == []
    assert index in tier.objects()
    with pytest.raises(MissingLedgerError):
        tier.values()
    tier.remove(index)
    assert tier.values() == VISIBLE


def test_a_damaged_index_of_the_ledger_is_made_again(tier: Tier) -> None:
    tier.settle()
    (tier.folder / keys_of(tier.made[1])[1]).write_bytes(b"\0" * 200)
    tier.age()
    plan = plan_repair(tier.bucket, topic=TOPIC, ledgers=[1])
    assert [(one.repair.action_name, one.error) for one in plan.carry_out()] == [("replace-index", None)]
    assert tier.bucket.ledger(1).ref.uuid == tier.made[1].uuid
    assert tier.values() == VISIBLE


@pytest.mark.parametrize("loss", ["removed", "damaged"])
def test_the_index_of_a_settled_copy_is_made_again(tier: Tier, loss: str) -> None:
    copies = tier.settle()
    index = tier.folder / keys_of(copies[1])[1]
    whole = index.read_bytes()
    if loss == "removed":
        index.unlink()
    else:
        index.write_bytes(b"\0" * 200)
    tier.age()
    assert tier.values() == VISIBLE
    # The ledger is whole, but a cluster whose list names its copy cannot read it.
    (damage,) = (one for one in verify(tier.bucket).findings if one.severity is Severity.DAMAGE)
    assert ("a settled copy" in damage.message) == (loss == "removed")
    plan = plan_repair(tier.bucket, topic=TOPIC, ledgers=[1])
    assert [one.error for one in plan.carry_out()] == [None]
    assert index.read_bytes() == whole
    assert tier.findings() == [("settled-copy", "remark")] * 2


def test_the_index_of_a_settled_copy_whose_data_is_lost_stays(tier: Tier) -> None:
    copies = tier.settle()
    data, index = keys_of(copies[1])
    tier.remove(data)
    tier.age()
    assert tier.values() == VISIBLE
    assert ("index-without-data", "damage") in tier.findings()
    plan = plan_repair(tier.bucket, topic=TOPIC, ledgers=[1])
    assert plan.to_do == []
    assert ["a cluster whose list names" in one.reason for one in plan.left] == [True]
    assert index in tier.objects()
    target = tier.folder.parent / "backup"
    target.mkdir()
    told = copy_ledgers(f"file://{tier.folder}", f"file://{target}", allow_incomplete=True)
    assert [one.key for one in told.missing] == [index]
    assert told.copied == len(tier.made) + 1


def test_a_settled_copy_waits_for_the_repair_of_its_ledger(tier: Tier) -> None:
    copies = tier.settle()
    tier.remove(keys_of(tier.made[1])[1], keys_of(copies[1])[1])
    tier.age()
    for expected in (["rebuild-index"], ["rebuild-index"]):
        plan = plan_repair(tier.bucket, topic=TOPIC, ledgers=[1])
        assert [one.repair.action_name for one in plan.carry_out()] == expected
    assert {ref.uuid: ref.is_settled for ref in tier.bucket.catalog.all_of(1)} == {
        tier.made[1].uuid: False,
        copies[1].uuid: True,
    }


# --- copies of the bucket


def test_a_copy_of_the_bucket_takes_both(tier: Tier, tmp_path: Path) -> None:
    tier.settle()
    target = tmp_path / "target"
    report = copy_ledgers(tier.bucket, str(target))
    assert (report.copied, report.skipped) == (5, 0)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == tier.objects()
    again = copy_ledgers(tier.bucket, str(target))
    assert (again.copied, again.skipped) == (0, 5)


def test_a_ledger_is_copied_to_where_only_its_settled_copy_is(tier: Tier, tmp_path: Path) -> None:
    """Or the copy would lack its messages of transactions."""
    target = tmp_path / "target"
    target.mkdir()
    for ref in tier.settle().values():
        if ref.is_settled:
            for key in keys_of(ref):
                shutil.copy(tier.folder / key, target / key)
    for made in tier.made.values():
        others = [ref for ref in tier.bucket.catalog.all_of(made.ledger_id) if ref.uuid != made.uuid]
        tier.remove(*(key for ref in others for key in keys_of(ref)))
    report = copy_ledgers(tier.bucket, str(target))
    assert (report.copied, report.skipped) == (3, 0)
    read = {ref.ledger_id: ref.uuid for ref in open_bucket(str(target)).catalog.refs() if ref.copy == 0}
    assert read == {number: made.uuid for number, made in tier.made.items()}


# --- attempts that end, and others at once


class Killed(BaseException):
    """An end that nothing catches."""


class At:
    """Witness that acts at one point of an operation."""

    def __init__(self, number: int, act: Callable[[], None]) -> None:
        self.left, self.act = number, act

    def met(self) -> None:
        self.left -= 1
        if self.left == -1:
            self.act()

    def refusal_of(self, *_: object, **__: object) -> None: ...

    def published(self, *_: object) -> None: ...

    def unpublished(self, *_: object) -> None: ...

    def data_deleted(self, *_: object) -> None: ...


def kill() -> None:
    raise Killed


def points(tier: Tier, act: Callable[[], None]) -> Iterator[tuple[int, BaseException | None]]:
    """Settle once for each point of it, with ``act`` there, from the same beginning; yield how that ended."""
    before = tier.objects()
    for number in range(1000):
        witness = At(number, act)
        failure: BaseException | None = None
        try:
            tier.settle(Bucket(MeetingStore(tier.bucket.raw_store, witness)))
        except (Killed, LedgerfsError) as error:
            failure = error
        if witness.left >= 0:
            assert number > 10
            return
        yield number, failure
        tier.remove(*tier.objects())
        for key, data in before.items():
            (tier.folder / key).write_bytes(data)


def whole(tier: Tier, folder: Path) -> dict[str, bytes]:
    """Return the objects of the topic with its settled copies."""
    folder.mkdir()
    other = Tier(folder)
    other.settle()
    assert set(tier.objects()) <= set(other.objects())
    return other.objects()


@pytest.mark.long
def test_a_kill_at_any_point_is_made_good_by_the_next_run(tier: Tier, tmp_path: Path) -> None:
    wanted = whole(tier, tmp_path / "whole")
    for number, failure in points(tier, kill):
        assert isinstance(failure, Killed), number
        tier.age()
        assert tier.values() == VISIBLE, number
        # An index may be lost as well, and a cluster name the copy: only a repair, or the next run, knows.
        assert {kind for kind, severity in tier.findings() if severity == "damage"} <= {"data-without-index"}, number
        tier.repairs()
        assert not [kind for kind, severity in tier.findings() if severity == "damage"], number
        assert tier.values() == VISIBLE, number
        tier.settle()
        assert {key: data for key, data in tier.objects().items() if not key.startswith(".")} == wanted, number


@pytest.mark.long
def test_another_run_at_any_point_makes_the_same(tier: Tier, tmp_path: Path) -> None:
    wanted = whole(tier, tmp_path / "whole")
    for number, failure in points(tier, lambda: tier.settle() and None):
        assert failure is None, number
        assert tier.objects() == wanted, number
        assert tier.values() == VISIBLE, number


@pytest.mark.long
def test_a_removal_at_any_point_is_told_or_made_good(tier: Tier, tmp_path: Path) -> None:
    """Whoever gets an answer has a whole copy, unless somebody removed it after its last look."""
    wanted = whole(tier, tmp_path / "whole")
    copies = sorted(set(wanted) - set(tier.objects()))

    def remove() -> None:
        tier.remove(*(key for key in copies if key in tier.objects()))

    for number, _ in points(tier, remove):
        assert tier.values() == VISIBLE, number
        tier.settle()
        assert tier.objects() == wanted, number


@for_each("which", [0, 1])
@for_each("damage", ["flipped", "cut", "empty"])
def test_a_damaged_copy_is_written_again(tmp_path: Path, which: int, damage: str) -> None:
    tier = Tier(Path(tempfile.mkdtemp(dir=tmp_path)))
    copies = tier.settle()
    wanted = tier.objects()
    path = tier.folder / keys_of(copies[1])[which]
    data = bytearray(path.read_bytes())
    data[-30] ^= 1
    path.write_bytes({"flipped": bytes(data), "cut": bytes(data[:-1]), "empty": b""}[damage])
    assert uuids_of(tier.settle()) == uuids_of(copies)
    after = tier.objects()
    index = keys_of(copies[1])[1]
    assert {**after, index: b""} == {**wanted, index: b""}
    assert parse_index(after[index]).blocks == parse_index(wanted[index]).blocks


def test_a_data_object_of_other_bytes_under_its_name_is_replaced(tier: Tier) -> None:
    copies = tier.settle()
    wanted = tier.objects()
    data, index = keys_of(copies[1])
    tier.remove(index)
    (tier.folder / data).write_bytes(b"something else")
    tier.settle()
    assert tier.objects() == wanted


def test_late_entries_of_a_topic_change_the_copys_name_only_if_they_change_an_outcome(tier: Tier) -> None:
    copies = tier.settle()
    put_in_folder(tier.folder, offload([sent("i")], 4, uuid=4))
    assert {number: ref.uuid for number, ref in tier.settle().items() if number < 4} == {
        number: ref.uuid for number, ref in copies.items()
    }
    put_in_folder(tier.folder, offload([sent("", 3, marker_type=COMMIT)], 5, uuid=5))
    later = tier.settle()
    assert later[1].uuid != copies[1].uuid
    assert later[2].uuid == copies[2].uuid
    assert tier.values() == sorted([*VISIBLE, "d open", "i"])


def test_what_was_found_in_another_copy_is_refused(tier: Tier) -> None:
    found = _found(tier)
    other = offload(LEDGERS[1], 1, uuid=77)
    tier.remove(*keys_of(tier.made[1]))
    bucket = open_bucket(put_in_folder(tier.folder, other))
    with pytest.raises(RefusedLedgerError, match="looked for in another copy"):
        write_settled(bucket, bucket.ledger(1).ref, found)


def test_a_store_that_takes_no_object_twice_gets_the_copy_of_an_ended_attempt(tier: Tier) -> None:
    """In stores of fsspec an object with the same bytes does not count as written."""
    url = f"memory://settled-{uuid4()}"
    fs, _ = fsspec.core.url_to_fs(url)
    for key, data in tier.objects().items():
        fs.pipe(f"{url}/{key}", data)

    def settle() -> dict[int, LedgerRef]:
        bucket = open_bucket(url)
        readers = bucket.readers_of(NAME, bucket.catalog)
        return {one.ref.ledger_id: write_settled(bucket, one.ref, unsettled(readers)) for one in readers}

    copies = settle()
    wanted = {key: fs.cat(key) for key in fs.ls(url, detail=False)}
    data, index = keys_of(copies[1])
    for left in (b"something else", fs.cat(f"{url}/{data}")):
        fs.rm(f"{url}/{index}")
        fs.pipe(f"{url}/{data}", left)
        assert uuids_of(settle()) == uuids_of(copies)
        assert {key: fs.cat(key) for key in fs.ls(url, detail=False)} == wanted


def test_a_settled_message_ends_no_transaction_of_others(tier: Tier) -> None:
    """A transaction that was open then is committed later: its messages in ledgers that are read themselves are seen."""
    put_in_folder(tier.folder, offload([sent("i open", 3)], 4, uuid=4))
    copies = tier.settle()
    assert copies[4].is_settled
    put_in_folder(tier.folder, offload([sent("", 3, marker_type=COMMIT)], 5, uuid=5))
    tier.remove(*keys_of(tier.bucket.ledger(4).ref))
    assert tier.bucket.ledger(4).ref.uuid == copies[4].uuid
    assert tier.values() == sorted([*VISIBLE, "d open"])
