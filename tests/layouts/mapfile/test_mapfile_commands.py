"""Every ledger that Pulsar's filesystem offloader wrote: on every kind of store, in every command, and on its way into objects of S3."""

import json
import uuid
from functools import cache
from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.verification import verify
from tests.support.golden_rows import expected_of, rows_of, wanted
from tests.support.invoked import output, run
from tests.support.mapfile_buckets import mapfile, messages, put_file, put_mapfiles
from tests.support.s3 import CREDENTIALS, S3Server

PLAIN = "persistent://public/golden/plain"


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


@pytest.fixture(scope="module")
def url(golden_mapfiles: Path) -> str:
    return f"file://{golden_mapfiles}/bucket"


def test_every_command(url: str, golden_mapfiles: Path, tmp_path: Path) -> None:
    expected = expected_of(golden_mapfiles, PLAIN)
    assert PLAIN in output("topics", url)
    names = output("ls", url, "entries/public/golden/plain").split()
    assert len(names) == 3
    ids = [int(name.removesuffix(".entries")) for name in names]
    records = run("cat", url, *(f"entries/public/golden/plain/{name}" for name in names)).stdout
    bucket = open_bucket(url)
    assert len(records) == sum(bucket.ledger(ledger_id).records_size for ledger_id in ids)
    described = json.loads(output("info", url, str(ids[0]), "--json"))
    assert described["compression"] == "block"
    assert described["objects"]["index"]["key"].endswith("/index")
    assert "first entry" in output("info", url, str(ids[0]))
    assert run("verify", url).stdout.decode().startswith("ledgers checked: 63 ")
    assert json.loads(output("count", url, PLAIN, "--json"))
    assert str(len(expected)) in output("count", url, PLAIN).replace(",", "")
    assert len(output("head", url, PLAIN, "-n", "4").splitlines()) >= 4
    run("export", url, PLAIN, str(tmp_path / "out"), "--format", "parquet")
    assert sum(len(pd.read_parquet(path)) for path in (tmp_path / "out").rglob("*.parquet")) == len(expected)
    assert "no action possible or needed" in output("repair", url)
    run("rm", url, f"entries/public/golden/plain/{names[0]}", "--yes", code=2)
    assert run("topics", url, "--layout", "pulsar_blob").stdout.decode().count("public/golden") == 0


@pytest.mark.long
def test_offload_into_objects_of_s3(url: str, golden_mapfiles: Path, s3: S3Server, s3_bucket: str) -> None:
    """The migration that users ask for: read back, verified, and the same messages."""
    target = f"s3://{s3_bucket}"
    options = [f"-O{name}={value}" for name, value in {"endpoint_url": s3.endpoint, **CREDENTIALS}.items()]
    reported = output("offload", url, target, *options)
    assert reported.startswith("ledgers copied: 63 ")
    assert reported.endswith("failed: 0\n")
    copy, source = open_bucket(target, s3.options), open_bucket(url)
    assert {(ref.layout, ref.uuid) for ref in copy.catalog.refs()} == {(0, ref.uuid) for ref in source.catalog.refs()}
    assert not verify(copy).findings
    for topic in (topic_of(one.managed_ledger) for one in copy.topics()):
        assert rows_of(copy.topic(topic).scan()) == wanted(expected_of(golden_mapfiles, topic)), topic
    for ref in source.catalog.refs():
        mine, its = source.reader(ref), copy.ledger(ref.ledger_id, topic=ref.topic)
        assert mine.metadata() == its.metadata()
        assert mine.read(0, mine.last_entry) == its.read(0, its.last_entry)
    again = output("offload", url, target, *options)
    assert again.startswith("ledgers copied: 0 ")
    assert "there already: 63, failed: 0" in again


def test_what_is_missing_has_an_exit_code(tmp_path: Path) -> None:
    good, bad, short = (mapfile(messages(i, 20), i, last_entry=29 if i == 3 else None) for i in (1, 2, 3))
    topic = "persistent://public/default/orders"
    for left in ("partial", "short"):
        url = put_mapfiles(tmp_path / left, good)
        if left == "partial":
            put_file(tmp_path / left / bad.folder / "data", bad.data[:200])
        else:
            put_mapfiles(tmp_path / left, short)
        for command in (["count", url, topic], ["count", url], ["head", "-n", "100", url, topic], ["verify", url]):
            assert run(*command, code=1).returncode == 1
        run("export", url, topic, str(tmp_path / f"{left}-out"), code=1)
        run("offload", url, str(tmp_path / f"{left}-copy"), code=1)
        run("verify", url, "--quick", code=1)
        assert ("20" if left == "partial" else "40") in output("count", url, topic, "--on-corrupt", "skip", code=1)
