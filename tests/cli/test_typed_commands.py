"""``head`` and ``count`` of topics with schemas."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ledgerfs import Bucket, open_bucket
from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.messages.text.json_lines import json_lines
from ledgerfs.schemas.saved_schemas import SavedSchemas
from tests.support.each import for_each
from tests.support.invoked import output, run
from tests.support.typed_golden import bucket_with_schemas

EVOLVED = "public/typed/avro-evolved"
CHANGED = "public/typed/type-changed"


def values_of(text: str) -> list[str]:
    return [line.strip().partition(" ")[2].strip() for line in text.splitlines() if line.startswith("  value")]


def test_head_shows_typed_values_if_a_schema_is_saved(typed: Bucket) -> None:
    url = typed.store.url
    shown = values_of(output("head", url, EVOLVED, "-n", "5"))
    rows = typed.topic(EVOLVED).scan(["value"], values="typed").to_arrow().slice(0, 5)
    (batch,) = rows.combine_chunks().to_batches()
    said = [json.loads(line)["value"] for line in bytes(json_lines(batch)).splitlines()]
    assert [None if one == "(null)" else json.loads(one) for one in shown] == said
    lines = [json.loads(line) for line in output("head", url, EVOLVED, "-n", "5", "--json").splitlines()]
    assert [one["value"] for one in lines] == said
    as_bytes = values_of(output("head", url, EVOLVED, "-n", "5", "--values", "bytes"))
    assert "\\x" in "".join(as_bytes)


def test_fields_beside_the_others(typed: Bucket) -> None:
    text = output("head", typed.store.url, EVOLVED, "-n", "3", "--flatten", "--columns", "value,key")
    assert "  id " in text
    assert "  value" not in text
    lines = [json.loads(one) for one in output("head", typed.store.url, EVOLVED, "--flatten", "--json").splitlines()]
    assert sum("id" in one for one in lines) > 5
    assert not any("value" in one for one in lines)


def test_a_topic_without_a_schema_is_shown_as_before(typed: Bucket, golden_typed: Path) -> None:
    topic = "public/typed/prim-bytes"
    plain = output("head", f"file://{golden_typed}/bucket", topic)
    assert output("head", typed.store.url, topic) == plain
    done = run("head", typed.store.url, topic, "--values", "typed", code=2)
    assert "ledgerfs schemas save" in done.stderr.decode()


def test_what_is_not_decoded_is_reported(typed: Bucket) -> None:
    done = run("head", typed.store.url, CHANGED, "-n", "200", code=1)
    assert "33 values are not decoded, the first in message" in done.stderr.decode()
    ended = run("head", typed.store.url, CHANGED, "-n", "200", "--on-undecodable", "raise", code=1)
    assert "on_undecodable='null' or 'skip' (--on-undecodable) reads the rest" in ended.stderr.decode()
    # Messages without a schema are bytes: that is no error.
    remark = run("head", typed.store.url, "public/typed/avro-mixed-bytes", "-n", "200")
    assert "its message has no schema version" in remark.stderr.decode()


def test_count_leaves_out_what_cannot_be_decoded(typed: Bucket) -> None:
    url, options = typed.store.url, ["--values", "typed", "--on-undecodable", "skip", "--json"]
    (one,) = json.loads(output("count", url, CHANGED, *options, code=1))
    assert one["messages"] == 105 - 66
    (whole,) = json.loads(output("count", url, CHANGED, "--json"))
    assert whole["messages"] == 105


def test_schemas_of_a_file(typed: Bucket, tmp_path: Path) -> None:
    fields = [{"name": "id", "type": "double"}]
    (tmp_path / "mine.avsc").write_text(json.dumps({"type": "record", "name": "Order", "fields": fields}))
    options = ["--values", "typed", "--schema-version", str(tmp_path / "mine.avsc"), "--json", "-n", "3"]
    lines = [json.loads(one) for one in output("head", typed.store.url, EVOLVED, *options).splitlines()]
    assert all(one["value"] is None or one["value"].keys() == {"id"} for one in lines)
    (tmp_path / "bad.avsc").write_text("[]")
    for text in ("bad.avsc", "none.avsc"):
        run("head", typed.store.url, EVOLVED, "--schema-version", str(tmp_path / text), code=2)
    run("head", typed.store.url, EVOLVED, "--schema-version", "newest", code=2)


@for_each("option", [["--flatten"], ["--schema-version", "1"], ["--on-undecodable", "null"]])
def test_options_of_values_that_stay_bytes_are_refused(typed: Bucket, tmp_path: Path, option: list[str]) -> None:
    url = typed.store.url
    out = str(tmp_path / "out")
    for command in (
        ["count", url, EVOLVED],
        ["export", url, EVOLVED, out],
        ["head", url, EVOLVED, "--values", "bytes"],
    ):
        said = run(*command, *option, code=2).stderr.decode()
        assert "applies to values as columns: pass values=typed, json or auto too" in said
    assert not (tmp_path / "out").exists()


def test_options_of_values_that_stay_bytes_are_refused_in_python(typed: Bucket) -> None:
    given: list[dict[str, Any]] = [
        {"flatten": True},
        {"schema_version": 1},
        {"values": "bytes", "on_undecodable": "null"},
    ]
    for options in given:
        for ask in (typed.topic(EVOLVED).scan, typed.topic(EVOLVED).count):
            with pytest.raises(InvalidOptionError, match="applies to values as columns"):
                ask(**options)
    for wrong in (*given, {"schema_version": "abc", "values": "typed"}, {"schema_version": 1, "values": "json"}):
        with pytest.raises(InvalidOptionError):
            open_bucket(typed.store.url, scan_options=wrong)
        with pytest.raises(InvalidOptionError):
            LedgerFileSystem(typed.store.url, scan_options=wrong, skip_instance_cache=True)


def test_a_schema_that_cannot_be_used_does_not_hide_the_messages(golden_typed: Path, tmp_path: Path) -> None:
    shutil.copytree(golden_typed / "bucket", tmp_path / "bucket")
    bucket = bucket_with_schemas(golden_typed, tmp_path / "typed")
    version = SchemaVersion(0, SchemaInfo("AVRO", b"{}"), 1)
    SavedSchemas(bucket.raw_store).add("persistent://public/typed/prim-bytes", [version])
    done = run("head", bucket.store.url, "public/typed/prim-bytes", code=1)
    assert "values are shown as bytes, because the schema cannot be used" in done.stderr.decode()
    assert done.stdout.decode() == output("head", f"file://{tmp_path}/bucket", "public/typed/prim-bytes")


def test_a_damaged_schema_does_not_hide_them_either_unless_it_is_asked_for(golden_typed: Path, tmp_path: Path) -> None:
    bucket = bucket_with_schemas(golden_typed, tmp_path / "typed")
    path = next(one for one in (tmp_path / "typed").rglob("*.json") if "prim-string/" in str(one))
    path.write_bytes(b"{")
    done = run("head", bucket.store.url, "public/typed/prim-string", code=1)
    assert "values are shown as bytes, because the schema cannot be used" in done.stderr.decode()
    assert done.stdout
    run("head", bucket.store.url, "public/typed/prim-string", "--values", "auto", code=1)
