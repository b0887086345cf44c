"""`ledgerfs.spark.pipelines.verify` finds what `ledgerfs verify` finds, however the ledgers are cut into tasks."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from ledgerfs import open_bucket
from ledgerfs.errors import CorruptLedgerError, StoreTimeoutError, WrongBodyError
from ledgerfs.spark.pipelines.verify import FINDING, prepare, verify
from ledgerfs.spark.runtime.storage import Storage
from ledgerfs.spark.runtime.tasks import distribute, error_of, line_of
from ledgerfs.spark.source import ledger_rows
from ledgerfs.spark.source.ledger_rows import costs_of_reading, ledger_parts
from ledgerfs.verification import verify as verify_here
from tests.support.s3 import Fault, FaultProxy


@pytest.fixture(scope="module")
def spoilt_url(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The golden bucket with damage of many kinds, and a key that is not Pulsar's."""
    folder = tmp_path_factory.mktemp("spoilt") / "bucket"
    shutil.copytree(golden / "bucket", folder)
    refs = list(open_bucket(f"file://{golden}/bucket", cache_dir=str(folder.parent / "cache")).catalog.refs())
    for number, ref in enumerate(refs[5:60:5]):
        data = bytearray((folder / ref.object("data").key).read_bytes())
        data[min(len(data) - 1, 150 + 40 * number)] ^= 0xFF
        (folder / ref.object("data").key).write_bytes(data)
    (folder / refs[70].object("data").key).write_bytes(
        (golden / "bucket" / refs[70].object("data").key).read_bytes()[:-3]
    )
    (folder / refs[75].object("index").key).write_bytes(b"no index")
    (folder / refs[80].object("index").key).unlink()
    (folder / refs[85].object("data").key).unlink()
    (folder / "notes.txt").write_text("of the administrator")
    return f"file://{folder}"


@pytest.mark.parametrize("quick", [True, False])
def test_the_report_is_that_of_the_command_without_spark(
    spark: SparkSession, golden_url: str, truncated_url: str, spoilt_url: str, quick: bool
) -> None:
    for url in (golden_url, truncated_url, spoilt_url):
        wanted = verify_here(open_bucket(url), quick=quick)
        assert prepare(spark, url, quick=quick).report() == wanted
    assert wanted.is_damaged
    assert len({finding.kind for finding in wanted.findings}) >= (4 if quick else 6)


def test_findings_are_rows_with_damage_first(spark: SparkSession, truncated_url: str) -> None:
    found = verify(spark, truncated_url)
    assert found.columns == FINDING.names
    wanted = [finding.as_json() for finding in verify_here(open_bucket(truncated_url)).findings]
    assert [row.asDict() for row in found.collect()] == wanted
    assert found.where("severity = 'damage' and offset = 5242880").count() == 2


def test_however_ledgers_are_cut_nothing_is_missing_and_nothing_twice(
    spark: SparkSession, spoilt_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_rows, "DEFAULT_PARTITION_BYTES", 5 << 20)
    verification = prepare(spark, spoilt_url)
    assert verification.checked.rdd.getNumPartitions() > 15
    assert verification.report() == verify_here(open_bucket(spoilt_url))


@pytest.mark.parametrize("size", [1, 3 << 20, 128 << 20])
def test_parts_hold_each_ledger_once_and_the_dearest_part_comes_first(
    golden_url: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_rows, "DEFAULT_PARTITION_BYTES", size)
    catalog = open_bucket(golden_url).catalog
    parts = list(ledger_parts(catalog, costs_of_reading(catalog.ledgers)))
    found = sorted((row_and_ref for part in parts for row_and_ref in part.refs()), key=lambda pair: pair[0])
    assert found == list(enumerate(catalog.refs()))
    costs = [int(costs_of_reading(part.ledgers).sum()) for part in parts]
    assert costs == sorted(costs, reverse=True)
    assert len(parts) == {1: 104, 128 << 20: 2}.get(size, len(parts))


def test_an_empty_catalog_has_no_parts(tmp_path: Path) -> None:
    catalog = open_bucket(f"file://{tmp_path}").catalog
    assert list(ledger_parts(catalog, np.empty(0, np.int64))) == []


def test_what_the_store_refuses_is_unchecked(spark: SparkSession, s3_golden: str, proxy: FaultProxy) -> None:
    proxy.faults = [Fault("403", matches=lambda method, path, headers: path.partition("?")[0].endswith("-ledger-26"))]
    report = prepare(spark, Storage(s3_golden, proxy.options)).report()
    assert not report.is_complete
    assert [(finding.severity.value, finding.ledger_id) for finding in report.findings] == [
        ("unchecked", 26),
        ("remark", None),
    ]


def test_what_was_found_is_kept_and_a_new_verification_looks_again(
    spark: SparkSession, golden: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "bucket"
    shutil.copytree(golden / "damaged" / "truncated-but-successful", folder)
    found = verify(spark, f"file://{folder}")
    first = found.collect()
    (data,) = folder.glob("*-ledger-201")
    data.unlink()
    assert found.collect() == first
    kinds = [row.kind for row in verify(spark, f"file://{folder}").collect()]
    assert kinds == ["index-without-data"]


@pytest.mark.parametrize("error", [
    CorruptLedgerError("found entry 3, expected entry 2", key="00000000-ledger-7", offset=512),
    StoreTimeoutError("no answer within 24 s: try again", key="s3://tier"),
    WrongBodyError("the store sent 3 bytes, but 5 were requested", key="00000000-ledger-7", offset=512),
])  # fmt: skip
def test_an_error_of_a_task_arrives_as_it_was(spark: SparkSession, error: Any) -> None:
    def fail(_: int) -> Iterator[pa.RecordBatch]:
        raise error

    with pytest.raises(PythonException) as raised:
        distribute(spark, [1, 2], fail, "n long").collect()  # type: ignore[arg-type]
    found = error_of(raised.value)
    assert type(found) is type(error)
    assert str(found) == str(error)


def test_an_error_that_is_none_of_ours_is_reported_in_one_line(spark: SparkSession) -> None:
    def fail(_: int) -> Iterator[pa.RecordBatch]:
        raise ValueError("what nobody expects")

    with pytest.raises(PythonException) as raised:
        distribute(spark, [1], fail, "n long").collect()  # type: ignore[arg-type]
    assert error_of(raised.value) is None
    assert line_of(raised.value) == "ValueError: what nobody expects"
