"""A store that fails at requests of Spark's data source: all rows, or our error."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.support.faults_in_turn import KINDS, MOST_REQUESTS, URL, FaultAt, FaultyBucket
from tests.support.lacking import TOPIC
from tests.support.odd_s3 import Request

KIND = {kind.name: kind for kind in KINDS}
AT: dict[str, Callable[[Request], bool]] = {
    "the listing": lambda request: "list-type" in request.query,
    "an index": lambda request: request.key.endswith("-index"),
    "the data": lambda request: request.key.endswith("-ledger-2"),
}


def rows(spark: SparkSession, place: FaultyBucket) -> list[Row]:
    reader = spark.read.format("ledgerfs").option("endpoint_url", place.odd.endpoint).option("anon", "true")
    return sorted(reader.option("topic", TOPIC).load(URL).select("ledger_id", "entry_id", "value").collect())


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Row], list[Request]]:
    """The rows, and the requests."""
    with FaultyBucket.started(tmp_path_factory.mktemp("undisturbed")) as place:
        return rows(spark, place), list(place.odd.seen)


@pytest.mark.parametrize(
    ("kind", "at", "is_lasting", "words"),
    [
        ("denied", "the listing", False, "access denied"),
        ("archived", "an index", False, "archive"),
        ("expired", "the data", True, "expired"),
        ("the same token", "the listing", True, ""),
        ("keys twice", "the listing", True, ""),
        ("broken body", "the data", False, ""),
    ],
)
def test_a_fault_is_not_noticed_or_an_error(
    kind: str,
    at: str,
    is_lasting: bool,
    words: str,
    spark: SparkSession,
    undisturbed: tuple[list[Row], list[Request]],
    tmp_path: Path,
) -> None:
    right, requests = undisturbed
    number = next(number for number, request in enumerate(requests, 1) if AT[at](request))
    # Another server, of which no worker has bytes in memory.
    with FaultyBucket.started(tmp_path) as place:
        fault = FaultAt(KIND[kind], number, is_lasting)
        place.odd.changes = fault.changes
        if words:
            with pytest.raises(PySparkException, match=words):
                rows(spark, place)
        else:
            assert rows(spark, place) == right
        assert fault.was_met
        assert fault.requests < MOST_REQUESTS
