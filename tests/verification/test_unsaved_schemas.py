"""`verify` and `topics` name the schemas that are not saved yet, and mind nothing else about them."""

import json
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.catalog.findings import Finding
from ledgerfs.errors import AccessDeniedError
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.schemas.saved_schemas import SavedSchemas
from ledgerfs.verification import verify
from tests.support.entries import frame, metadata
from tests.support.invoked import output, run
from tests.support.ledgers import offload, put_in_folder

TOPIC = "persistent://public/default/orders"


def entry(version: int | None) -> bytes:
    made = metadata()
    if version is not None:
        made.schema_version = version.to_bytes(8, "big")
    return frame(made, b"value")


def saved(number: int) -> SchemaVersion:
    return SchemaVersion(number, SchemaInfo("STRING"), 1, source="http://x")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A topic whose messages name the versions 0, 1, 2 and 5, and some none."""
    (tmp_path / "bucket").mkdir()
    ledgers = [[entry(0), entry(None), entry(1)], [entry(2), entry(1), entry(5)]]
    put_in_folder(
        tmp_path / "bucket", *(offload(entries, number, uuid=number) for number, entries in enumerate(ledgers, 1))
    )
    return tmp_path / "bucket"


def remarks(folder: Path, *, quick: bool = False) -> list[Finding]:
    report = verify(open_bucket(str(folder)), quick=quick)
    assert not report.is_damaged
    assert report.is_complete
    return [finding for finding in report.findings if "schemas" in finding.kind]


def test_what_is_not_saved_is_a_remark_until_it_is(folder: Path) -> None:
    (remark,) = remarks(folder)
    assert remark.severity.value == "remark"
    assert f"1 topics have schema versions that are not saved in the bucket ({TOPIC}: 0-2, 5)" in remark.message
    assert "ledgerfs schemas save" in remark.message
    place = SavedSchemas(open_bucket(str(folder)).raw_store)
    place.add(TOPIC, [saved(1), saved(5)])
    assert f"{TOPIC}: 0, 2)" in remarks(folder)[0].message
    place.add(TOPIC, [saved(0), saved(2)])
    assert remarks(folder) == []
    assert remarks(folder, quick=True) == []


def test_the_exit_code_is_that_of_the_ledgers(folder: Path) -> None:
    assert "unsaved-schemas" in output("verify", str(folder))
    (SavedSchemas(open_bucket(str(folder)).raw_store)).add(TOPIC, [saved(0)])
    (file,) = (folder / "_ledgerfs/schemas/public/default/orders").iterdir()
    file.write_bytes(b"torn")
    (remark,) = remarks(folder)
    assert (remark.kind, remark.topic) == ("unreadable-schemas", TOPIC)
    assert remark.key is not None
    assert remark.key.endswith(file.name)
    assert "unreadable-schemas" in output("verify", str(folder))


def test_schemas_that_may_not_be_read_are_unchecked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: SavedSchemas, topic: str) -> tuple[SchemaVersion, ...]:
        raise AccessDeniedError("access denied", key=topic)

    monkeypatch.setattr(SavedSchemas, "versions", refuse)
    report = verify(open_bucket(str(folder)))
    assert (report.is_damaged, report.is_complete) == (False, False)
    assert ("unchecked", "unreadable-schemas") in {(one.severity.value, one.kind) for one in report.findings}
    run("verify", str(folder), code=3)


def test_topics_says_so_if_it_is_asked(folder: Path) -> None:
    assert b"schema" not in run("topics", str(folder)).stderr
    done = run("topics", str(folder), "--schemas")
    assert f"{TOPIC}: schema version 5 is not saved".encode() in done.stderr
    assert done.stdout.splitlines()[0].endswith(b"schemas")
    SavedSchemas(open_bucket(str(folder)).raw_store).add(TOPIC, [saved(0), saved(5)])
    assert b"not saved" not in run("topics", str(folder), "--schemas").stderr
    (reported,) = json.loads(output("topics", str(folder), "--schemas", "--json"))
    assert (reported["schemas"], reported["unsaved_schemas"]) == (2, [])
    assert "schemas" not in json.loads(output("topics", str(folder), "--json"))[0]


def test_topics_with_a_damaged_newest_message(folder: Path) -> None:
    (data,) = (file for file in folder.iterdir() if file.name.endswith("-ledger-2"))
    data.write_bytes(data.read_bytes()[:140] + b"\xff" * (data.stat().st_size - 140))
    done = run("topics", str(folder), "--schemas")
    assert b"newest message cannot be read" in done.stderr
