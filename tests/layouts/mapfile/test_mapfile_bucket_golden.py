"""Every ledger that Pulsar's filesystem offloader wrote, on every kind of store."""

import uuid
from functools import cache
from pathlib import Path
from typing import Any

import fsspec
import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.formats.topic_names import topic_of
from tests.support.golden_rows import expected_of, rows_of, wanted
from tests.support.s3 import S3Server

PLACES = ["file", "base", "s3", "memory"]


@pytest.fixture(scope="module", params=PLACES)
def place(request: pytest.FixtureRequest, golden_mapfiles: Path, s3: S3Server) -> tuple[str, dict[str, Any]]:
    """URL and options of the golden bucket; as ``base`` it is a folder of the one that is opened."""
    bucket = golden_mapfiles / "bucket"
    if request.param == "file":
        return f"file://{bucket}", {}
    if request.param == "base":
        return f"file://{golden_mapfiles}", {}
    objects = {path.relative_to(bucket).as_posix(): path.read_bytes() for path in bucket.rglob("*") if path.is_file()}
    name = f"mapfiles-{uuid.uuid4()}"
    if request.param == "memory":
        fsspec.filesystem("memory").pipe({f"/{name}/{key}": data for key, data in objects.items()})
        return f"memory://{name}", {}
    s3.make_bucket(name, {f"pulsar/{key}": data for key, data in objects.items()})
    return f"s3://{name}", s3.options


@pytest.fixture(scope="module")
def bucket(place: tuple[str, dict[str, Any]]) -> Bucket:
    return open_bucket(*place)


@cache
def wanted_rows(golden: Path, topic: str) -> list[dict[str, Any]]:
    return wanted(expected_of(golden, topic))


def test_every_message_is_what_pulsar_reads(bucket: Bucket, golden_mapfiles: Path) -> None:
    for one in bucket.topics():
        topic = topic_of(one.managed_ledger)
        assert rows_of(bucket.topic(topic).scan()) == wanted_rows(golden_mapfiles, topic), topic
