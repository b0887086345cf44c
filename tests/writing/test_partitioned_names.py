"""The name of this topic is partitioned is taken by no ledger: it would mean only that ledger afterwards, and no partition any more."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from ledgerfs import copy_ledgers, import_rows, open_bucket, plan_repair, verify
from ledgerfs.errors import InvalidNameError
from ledgerfs.fsspec_impl import LedgerFileSystem
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, NAME, Offload, offload, put_in_folder, record
from tests.support.writes import when_listed

TOPIC = "persistent://public/default/orders"
ROWS = pa.table({"value": ["new"]})
ENTRIES = "entries/public/default"


def ledger(ledger_id: int, partition: int | None = None) -> Offload:
    name = NAME if partition is None else f"{NAME}-partition-{partition}"
    return offload([frame(metadata(publish_time_ms=CREATED_MS), b"a")] * 7, ledger_id, uuid=ledger_id, name=name)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def made_tier(folder: Path) -> Path:
    """Make a bucket with five partitions of 7 messages each."""
    (folder / "tier").mkdir()
    put_in_folder(folder / "tier", *[ledger(number, number) for number in range(5)])
    return folder / "tier"


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return made_tier(tmp_path)


def by_import(tier: Path) -> None:
    import_rows(str(tier), ROWS, TOPIC)


def by_import_under_an_id(tier: Path) -> None:
    import_rows(str(tier), ROWS, TOPIC, ledger_id=70, if_exists="new-copy")


def by_put(tier: Path) -> None:
    LedgerFileSystem(tier.as_uri(), "file").cp_file(
        f"{ENTRIES}/orders-partition-0/0.entries", f"{ENTRIES}/orders/70.entries"
    )


def by_put_unless_there(tier: Path) -> None:
    fs = LedgerFileSystem(tier.as_uri(), "file")
    fs.pipe_file(
        f"{ENTRIES}/orders/70.entries", fs.cat_file(f"{ENTRIES}/orders-partition-0/0.entries"), if_exists="skip"
    )


def by_repair(tier: Path) -> None:
    plan_repair(str(tier), topic=TOPIC, older_than_s=0)


WAYS = [by_import, by_import_under_an_id, by_put, by_put_unless_there, by_repair]


@for_each("write", WAYS)
def test_nothing_is_written_under_the_name_and_the_partitions_are_named(
    write: Callable[[Path], None], case_path: Path
) -> None:
    tier = made_tier(case_path)
    before = names(tier)
    with pytest.raises(
        InvalidNameError, match=r"orders: this topic is partitioned.*/orders-partition-0, .*-2 and 2 more\."
    ) as error:
        write(tier)
    assert str(error.value).count("persistent://") == 4
    assert names(tier) == before
    assert open_bucket(str(tier)).topic(TOPIC).count() == 35


@for_each("write", WAYS)
def test_a_name_that_means_ledgers_of_its_own_already_gets_more(write: Callable[[Path], None], case_path: Path) -> None:
    tier = made_tier(case_path)
    put_in_folder(tier, ledger(60))
    write(tier)
    assert open_bucket(str(tier)).topic(TOPIC).count() >= 7


@contextmanager
def late_partition(folder: Path, at: int) -> Iterator[Path]:
    """Lend a bucket that gets its first partition just before a writer lists it for this time."""
    (folder / "late").mkdir()
    put_in_folder(folder / "late", offload([frame(metadata(), b"b")], 3, name=f"{NAME}s"))
    with pytest.MonkeyPatch.context() as patch:
        when_listed(
            patch,
            lambda: put_in_folder(folder / "late", ledger(9, 0)),
            at=at,
            by=lambda bucket: "late" in bucket.store.url,
            is_before=True,
        )
        yield folder / "late"


def by_opening(folder: Path) -> None:
    fs = LedgerFileSystem(folder.as_uri(), "file")
    data = fs.cat_file(f"{ENTRIES}/orderss/3.entries")
    with fs.open(f"{ENTRIES}/orders/70.entries", "wb") as file:
        file.write(data)


def by_transaction(folder: Path) -> None:
    fs = LedgerFileSystem(folder.as_uri(), "file")
    with fs.transaction:
        fs.cp_file(f"{ENTRIES}/orderss/3.entries", f"{ENTRIES}/orders/70.entries")


def by_copy(folder: Path) -> None:
    other = folder.parent / "source"
    other.mkdir()
    put_in_folder(other, ledger(60), ledger(61))
    report = copy_ledgers(str(other), str(folder), allow_incomplete=True)
    assert (report.copied, len(report.failed)) == (0, 2)
    assert report.failed[0].error is not None
    raise report.failed[0].error


@for_each("write", [by_import, by_import_under_an_id, by_opening, by_transaction, by_copy])
def test_who_writes_under_the_name_while_a_partition_comes_takes_it_back(
    write: Callable[[Path], None], case_path: Path
) -> None:
    # A copy lists its target before, too.
    with late_partition(case_path, 2 if write is by_copy else 1) as late:
        with pytest.raises(InvalidNameError, match="this topic is partitioned: the bucket has"):
            write(late)
        assert open_bucket(str(late)).topic(TOPIC).count() == 7
        assert len(names(late)) == 4


@for_each("order", [(0, 1), (1, 0)])
@for_each("is_transaction", [True, False])
def test_a_partition_and_the_name_are_not_both_new(
    order: tuple[int, int], is_transaction: bool, case_path: Path
) -> None:
    data = b"".join(record(number, frame(metadata(publish_time_ms=CREATED_MS), b"a")) for number in range(3))
    files = [(f"{ENTRIES}/orders/70.entries", data), (f"{ENTRIES}/orders-partition-0/71.entries", data)]
    fs = LedgerFileSystem(case_path.as_uri(), "file")

    def write() -> None:
        if not is_transaction:
            fs.pipe(dict(files[place] for place in order))
            return
        with fs.transaction:
            for place in order:
                fs.pipe_file(*files[place])

    with pytest.raises(InvalidNameError, match="this topic is partitioned"):
        write()
    assert not fs.exists(files[0][0])


def test_a_repair_under_the_name_is_not_carried_out_once_there_are_partitions(tmp_path: Path) -> None:
    orphan = offload([frame(metadata(publish_time_ms=CREATED_MS), b"a")], 1, uuid=1, name=None)
    put_in_folder(tmp_path, orphan)
    (tmp_path / f"{orphan.uuid}-ledger-1-index").unlink()
    plan = plan_repair(str(tmp_path), topic=TOPIC, ledgers=[1], older_than_s=-3600)
    put_in_folder(tmp_path, ledger(9, 0))
    (done,) = plan.carry_out()
    assert isinstance(done.error, InvalidNameError)
    assert open_bucket(str(tmp_path)).topic(TOPIC).count() == 7


@for_each("topic", ["orders-partition-0", "orders-partition-9", "order", "orders-partition"])
def test_partitions_and_other_topics_are_written(topic: str, case_path: Path) -> None:
    tier = made_tier(case_path)
    import_rows(str(tier), ROWS, topic)
    assert open_bucket(str(tier)).topic(TOPIC).count() == (36 if topic[-1].isdigit() else 35)


def test_a_copy_of_a_bucket_hides_no_partition_of_another(tier: Path, tmp_path: Path) -> None:
    """Its other ledgers are copied."""
    (tmp_path / "other").mkdir()
    put_in_folder(tmp_path / "other", ledger(60), ledger(61), ledger(9, 9))
    (tmp_path / "alone").mkdir()
    put_in_folder(tmp_path / "alone", ledger(60), ledger(61), offload([frame(metadata(), b"b")], 62, name=f"{NAME}s"))
    report = copy_ledgers(str(tmp_path / "alone"), str(tier), allow_incomplete=True)
    assert (report.copied, [type(one.error) for one in report.failed]) == (1, [InvalidNameError] * 2)
    assert open_bucket(str(tier)).topic(TOPIC).count() == 35
    # In this bucket the name means the ledgers of the name already, and it is copied as it is.
    assert copy_ledgers(str(tmp_path / "other"), str(tier)).copied == 3
    assert open_bucket(str(tier)).topic(TOPIC).count() == 14
    assert copy_ledgers(str(tmp_path / "alone"), str(tier)).skipped == 3


def test_a_bucket_with_both_is_copied_and_gone_on_with(tier: Path, tmp_path: Path) -> None:
    put_in_folder(tier, ledger(60))
    assert copy_ledgers(str(tier), str(tmp_path / "copy"), topics=[f"{TOPIC}-partition-0"]).copied == 1
    assert copy_ledgers(str(tier), str(tmp_path / "copy")).copied == 5
    assert names(tmp_path / "copy") == names(tier)


def test_verify_remarks_that_a_name_hides_partitions(tier: Path) -> None:
    assert not [one for one in verify(str(tier), quick=True).findings if one.kind == "hidden-partitions"]
    put_in_folder(tier, ledger(60))
    (found,) = [one for one in verify(str(tier), quick=True).findings if one.kind == "hidden-partitions"]
    assert (found.topic, "not those of its 5 partitions" in found.message) == (TOPIC, True)
