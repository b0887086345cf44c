"""What is counted and told of the traffic with a store."""

import logging
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import fsspec
import pytest

from ledgerfs.storage.objects import ReadRequest
from ledgerfs.storage.opening import open_store
from ledgerfs.storage.traffic import Traffic, TrafficStats
from tests.support.children import is_true_in_child
from tests.support.s3 import CREDENTIALS, Fault, FaultProxy, S3Server
from tests.support.tries import without_pauses

BODY = bytes(1000)


def test_threads_lose_no_count() -> None:
    traffic = Traffic()

    def count() -> None:
        for _ in range(5000):
            traffic.count(requests=1, bytes_asked=3)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert traffic.stats() == TrafficStats(requests=40_000, bytes_asked=120_000)
    assert traffic.stats().as_dict()["requests"] == 40_000


def test_a_pickle_is_empty_and_a_child_counts_on() -> None:
    traffic = Traffic()
    traffic.count(hits=1)
    assert pickle.loads(pickle.dumps(traffic)).stats() == TrafficStats()

    def count() -> bool:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(traffic.count, hits=1).result()
        return traffic.stats().hits == 2

    with traffic._lock:  # held by the parent at the moment of the fork
        assert is_true_in_child(count)
    assert traffic.stats().hits == 1


def test_each_request_is_reported_without_credentials(
    proxy: FaultProxy,
    s3: S3Server,
    s3_bucket: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    s3.client.put_object(Bucket=s3_bucket, Key="a", Body=BODY)
    without_pauses(monkeypatch)
    fs = fsspec.filesystem("s3", **proxy.options)
    store = open_store(fs, s3_bucket)
    proxy.faults = [Fault("503", times=1)]
    with caplog.at_level(logging.DEBUG, "ledgerfs.store"):
        list(store.list_pages())
        store.read(ReadRequest("a", 10, 30))
    texts = [record.getMessage() for record in caplog.records if record.name == "ledgerfs.store"]
    assert [text.partition(":")[0] for text in texts] == ["LIST s3", *["GET a 10-30"] * 3]
    assert "0 bytes in" in texts[1]
    assert "try 1: the store failed" in texts[1]
    assert texts[2].startswith("GET a 10-30: try 1 failed (the store failed")
    assert "20 bytes in" in texts[3]
    assert texts[3].endswith("try 2: ok")
    assert not any(secret in text for text in texts for secret in CREDENTIALS.values())
