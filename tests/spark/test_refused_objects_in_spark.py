"""Objects that the store refuses, in Spark: an error that names the object, or the rest of the rows and what was left out."""

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ledgerfs.errors import AccessDeniedError, UnreadableObjectsWarning
from ledgerfs.spark import Storage, export
from ledgerfs.spark.source.data_source import LedgerfsDataSource
from ledgerfs.spark.source.left_out import by_topic, left_out_accumulator
from tests.spark.planned import by_tasks
from tests.support.lacking import OTHER_NAME, TOPIC, key_of, ledger, lossy_s3
from tests.support.s3 import CREDENTIALS, Fault, FaultProxy, S3Server

MESSAGES = 20
INDEX, DATA = (key_of(ledger(2, messages=MESSAGES), ending) for ending in ("-index", ""))
OF_UNKNOWN_TOPIC, OF_KNOWN_TOPIC, IN_A_TASK = ((INDEX, DATA), "GET HEAD"), ((INDEX,), "GET"), ((DATA,), "GET HEAD")
"""Refused objects, and by which methods: HEAD returns user metadata, which name the topic. Tasks read data objects."""
SETTINGS = {"fs.s3a.access.key": CREDENTIALS["key"], "fs.s3a.secret.key": CREDENTIALS["secret"]}


@pytest.fixture
def refusing(s3: S3Server, s3_bucket: str, proxy: FaultProxy) -> Callable[..., str]:
    """Return the URL of a bucket of two topics, whose store refuses objects from now on."""
    made = lossy_s3(s3, s3_bucket)
    for number in (1, 2, 3):
        made.put(ledger(number, messages=MESSAGES))
    made.put(ledger(4, messages=MESSAGES, name=OTHER_NAME), name=OTHER_NAME)

    def refuse(keys: tuple[str, ...], methods: str) -> str:
        proxy.faults = [Fault("403", matches=lambda method, path, _: method in methods and path.endswith(keys))]
        return made.url

    return refuse


@pytest.mark.parametrize("refused", [OF_UNKNOWN_TOPIC, OF_KNOWN_TOPIC, IN_A_TASK])
def test_a_query_fails_or_reads_the_rest_and_names_what_is_left_out(
    refusing: Callable[..., str],
    proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    refused: tuple[tuple[str, ...], str],
) -> None:
    monkeypatch.setattr(LedgerfsDataSource, "settings", SETTINGS)
    url = refusing(*refused)
    with pytest.raises(AccessDeniedError, match=refused[0][0]):
        by_tasks(url, endpoint_url=proxy.endpoint)
    with caplog.at_level("WARNING", "ledgerfs.spark"), warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always", UnreadableObjectsWarning)
        _, table = by_tasks(url, endpoint_url=proxy.endpoint, onUnreadable="skip")
    assert table.num_rows == 3 * MESSAGES
    warned = [str(one.message) for one in met if one.category is UnreadableObjectsWarning]
    assert any(refused[0][0] in line for line in (*caplog.messages, *warned))


def test_an_export_fails_where_the_store_refuses_or_reports_what_it_lacks(
    spark: SparkSession, refusing: Callable[..., str], proxy: FaultProxy, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    left_out = left_out_accumulator(spark)

    def exported(on_unreadable: str) -> list[int]:
        storage = Storage(url, proxy.options, on_unreadable=on_unreadable)  # type: ignore[arg-type]
        shutil.rmtree(lake, ignore_errors=True)
        export(spark, storage, str(lake), topics=[TOPIC], columns=["ledger_id"], left_out=left_out)
        return sorted(set(pq.read_table(lake)["ledger_id"].to_pylist()))

    url = refusing(*OF_KNOWN_TOPIC)
    with pytest.raises(AccessDeniedError, match=INDEX):
        exported("raise")
    assert exported("skip") == [1, 3]
    (reported,) = by_topic(left_out.value)
    assert [one.key for one in reported.missing] == [INDEX]
    refusing(*IN_A_TASK)
    with pytest.raises(AccessDeniedError, match=DATA):
        exported("raise")
    assert not (lake / "_SUCCESS").exists()
    assert exported("skip") == [1, 3]
    (reported,) = by_topic(left_out.value)
    assert any(DATA in one.reason for one in reported.skipped)
    proxy.faults = []
    assert exported("raise") == [1, 2, 3]
