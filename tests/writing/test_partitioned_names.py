"""The name of a partitioned topic is taken by no ledger: it would mean only that ledger afterwards, and no partition any more."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from ledgerfs import copy_ledgers, import_rows, open_bucket, plan_repair
from ledgerfs.errors import InvalidNameError
from ledgerfs.fsspec_impl import LedgerFileSystem
from tests.support.commands import run
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, NAME, Offload, offload, put_in_folder

TOPIC = "persistent://public/default/orders"
ROWS = pa.table({"value": ["new"]})
ENTRIES = "entries/public/default"


def ledger(ledger_id: int, partition: int | None = None) -> Offload:
    name = NAME if partition is None else f"{NAME}-partition-{partition}"
    return offload([frame(metadata(publish_time_ms=CREATED_MS), b"a")] * 7, ledger_id, uuid=ledger_id, name=name)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """A bucket with five partitions of 7 messages each."""
    (tmp_path / "tier").mkdir()
    put_in_folder(tmp_path / "tier", *[ledger(number, number) for number in range(5)])
    return tmp_path / "tier"


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


@pytest.mark.parametrize("write", WAYS)
def test_nothing_is_written_under_the_name_and_the_partitions_are_named(
    write: Callable[[Path], None], tier: Path
) -> None:
    before = names(tier)
    with pytest.raises(
        InvalidNameError, match=r"orders: a partitioned topic.*/orders-partition-0, .*-2 and 2 more;"
    ) as error:
        write(tier)
    assert str(error.value).count("persistent://") == 4
    assert names(tier) == before
    assert open_bucket(str(tier)).topic(TOPIC).count() == 35


@pytest.mark.parametrize("write", WAYS)
def test_a_name_that_means_ledgers_of_its_own_already_gets_more(write: Callable[[Path], None], tier: Path) -> None:
    put_in_folder(tier, ledger(60))
    write(tier)
    assert open_bucket(str(tier)).topic(TOPIC).count() >= 7


@pytest.mark.parametrize("topic", ["orders-partition-0", "orders-partition-9", "order", "orders-partition"])
def test_partitions_and_other_topics_are_written(topic: str, tier: Path) -> None:
    import_rows(str(tier), ROWS, topic)
    assert open_bucket(str(tier)).topic(TOPIC).count() == (36 if topic[-1].isdigit() else 35)


def test_the_command_says_so(tier: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"value":"new"}\n')
    told = run("import", str(tmp_path / "rows.jsonl"), str(tier), "orders", code=2).stderr.decode()
    assert "orders-partition-0" in told
    assert open_bucket(str(tier)).topic(TOPIC).count() == 35


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
