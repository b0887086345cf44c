"""``ledgerfs offload`` as a user runs it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from ledgerfs import open_bucket
from ledgerfs.cli.parameter_types import Size
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.schemas.saved_schemas import SavedSchemas
from tests.support.commands import run as run_process
from tests.support.each import for_each
from tests.support.invoked import output, run
from tests.support.lacking import OTHER, OTHER_NAME, TOPIC, key_of, ledger, lossy_s3
from tests.support.ledgers import offload, put_in_folder
from tests.support.s3 import CREDENTIALS, S3Server
from tests.support.s3_log import changes, requests_of

PLAIN = "persistent://public/golden/plain"
COPIED = "ledgers copied: {} ({} of entries, read back and whole), there already: {}, failed: {}\n"


def objects_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def some_golden(golden: Path, folder: Path, *ids: int) -> str:
    folder.mkdir()
    for path in (golden / "bucket").iterdir():
        if int(path.name.removesuffix("-index").rpartition("-")[2]) in ids:
            shutil.copy(path, folder)
    return str(folder)


def rows_of(url: str, topic: str) -> list[dict[str, Any]]:
    table = open_bucket(url).topic(topic).scan(on_encrypted="null").to_arrow()
    return table.drop_columns(["ledger_id", "entry_id", "batch_index"]).to_pylist()


def test_a_bucket_becomes_a_folder_of_the_same_files(golden: Path, golden_url: str, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    done = run_process("offload", golden_url, str(target))
    assert done.stdout.decode() == COPIED.format(104, "25.4 MiB", 0, 0)
    assert done.stderr == b""
    assert objects_in(target) == objects_in(golden / "bucket")
    assert output("offload", golden_url, f"file://{target}") == COPIED.format(0, "0 B", 104, 0)
    for path in sorted(target.iterdir())[:20]:
        path.unlink()
    # Data objects whose index is gone are found to be the same, and are only given it back.
    assert run("offload", golden_url, str(target)).stdout.decode().endswith("failed: 0\n")
    assert objects_in(target) == objects_in(golden / "bucket")


def test_to_a_folder_of_a_bucket_on_s3_with_options_of_the_target(
    golden: Path, tmp_path: Path, s3: S3Server, s3_bucket: str
) -> None:
    source = some_golden(golden, tmp_path / "source", 42, 26)
    options = [
        f"-Oendpoint_url={s3.endpoint}",
        "-O",
        f"key={CREDENTIALS['key']}",
        "-O",
        f"secret={CREDENTIALS['secret']}",
    ]
    url = f"s3://{s3_bucket}/backup/of tier"
    text = COPIED.format(2, "11.2 MiB", 0, 0)
    assert output("offload", source, url, *options) == text
    listed = s3.client.list_objects_v2(Bucket=s3_bucket)["Contents"]
    assert {one["Key"] for one in listed} == {f"backup/of tier/{name}" for name in objects_in(tmp_path / "source")}
    assert sorted(one["ETag"].strip('"').partition("-")[2] for one in listed) == ["", "", "1", "3"]
    with requests_of(s3_bucket) as seen:
        assert output("offload", source, url, *options) == COPIED.format(0, "0 B", 2, 0)
    assert changes(seen) == []
    # And back.
    back = tmp_path / "back"
    source_options = [option.replace("-O", "-o") for option in options]
    assert output("offload", url, str(back), *source_options) == text
    assert objects_in(back) == objects_in(tmp_path / "source")


@pytest.mark.parametrize("name", ["file", "no/such"])
def test_targets_that_cannot_be_made_are_one_line(name: str, golden_url: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    done = run("offload", golden_url, str(tmp_path / name), "--topic", PLAIN, code=3)
    assert str(tmp_path / name).encode() in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert not (tmp_path / "no").exists()


def test_no_target_is_made_for_a_source_that_is_not_there(tmp_path: Path) -> None:
    run("offload", str(tmp_path / "nowhere"), str(tmp_path / "copy"), code=3)
    assert not (tmp_path / "copy").exists()


@for_each("size", ["0", "x"])
def test_sizes_that_are_none_are_wrong_usage_and_nothing_is_copied(size: str, golden_url: str, tmp_path: Path) -> None:
    done = run("offload", golden_url, str(tmp_path / "copy"), "--block-size", size, code=2)
    assert done.stdout == b""
    assert list(tmp_path.rglob("*-ledger-*")) == []


@for_each(
    ("text", "size"),
    [
        ("5242880", 5 << 20),
        ("64MiB", 64 << 20),
        ("64 mib", 64 << 20),
        ("1.5 GiB", 3 << 29),
        ("6MB", 6_000_000),
        ("7M", 7 << 20),
        ("0", 0),
        ("1e6", None),
        ("-1", None),
        ("1.5.2MiB", None),
        ("MiB", None),
        ("64MiBs", None),
        ("\u0665", None),
        ("", None),
    ],
)
def test_sizes_as_people_write_them(text: str, size: int | None) -> None:
    if size is not None:
        assert Size().convert(text, None, None) == size
        return
    with pytest.raises(click.BadParameter, match="invalid size"):
        Size().convert(text, None, None)


def test_unbatched_ledgers_may_have_ids_that_a_broker_is_to_know(golden: Path, tmp_path: Path) -> None:
    source, target = some_golden(golden, tmp_path / "source", 37, 91, 130, 44), str(tmp_path / "split")
    output("offload", source, target, "--unbatch", "--ledger-id", "1000")
    assert {ref.ledger_id for ref in open_bucket(target).catalog.refs()} == {1000, 1001, 1002, 1003}
    assert "there already: 4, failed: 0" in output("offload", source, target, "--unbatch", "--ledger-id", "1000")
    assert "there already: 4, failed: 0" in output("offload", source, target, "--unbatch")
    again = run("offload", source, target, "--unbatch", "--ledger-id", "1001", code=1)
    assert "the bucket already has ledger 1001" in again.stderr.decode()
    assert "they would be duplicated" in again.stderr.decode()
    assert {ref.ledger_id for ref in open_bucket(target).catalog.refs()} == {1000, 1001, 1002, 1003}
    alone = run("offload", source, target, "--ledger-id", "1000", code=2)
    assert "--ledger-id needs --unbatch" in alone.stderr.decode()


def test_what_to_do_with_ledgers_that_are_there(golden: Path, tmp_path: Path) -> None:
    source, target = some_golden(golden, tmp_path / "source", 42), str(tmp_path / "copy")
    output("offload", source, target)
    assert "already" in run("offload", source, target, "--if-exists", "fail", code=1).stderr.decode()
    output("offload", source, target, "--if-exists", "new-copy", "--new-uuid", "--block-size", "7MiB")
    copies = [open_bucket(target).ledger(42, uuid=ref.uuid) for ref in open_bucket(target).catalog.all_of(42)]
    assert sorted(len(one.index.blocks) for one in copies) == [2, 3]


def test_damaged_ledgers_are_named_and_not_copied(golden: Path, truncated_url: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    url = some_golden(golden, source, 26, 33, 42, 44, 45)
    for path in Path(truncated_url.removeprefix("file://")).iterdir():
        shutil.copy(path, source)
    by_id = {path.name.rpartition("-ledger-")[2]: path for path in source.iterdir()}
    data = bytearray(by_id["42"].read_bytes())
    data[-1] ^= 1
    by_id["42"].write_bytes(data)
    by_id["44-index"].write_bytes(b"no index")
    by_id["45"].unlink()
    (source / by_id["33"].name.replace("33", "34")).write_bytes(by_id["33"].read_bytes())
    done = run("offload", url, str(tmp_path / "copy"), code=1)
    assert done.stdout.decode().endswith("there already: 0, failed: 5\n")
    errors = done.stderr.decode().splitlines()
    assert len(errors) == 5
    assert [line for line in errors if line.startswith("failed  ledger 201 of ") and "damaged" in line]
    assert [line for line in errors if line.startswith("failed  ledger 42 of ") and "checksum" in line]
    # Of these there is no ledger to be copied.
    assert [line for line in errors if by_id["44-index"].name in line]
    assert [line for line in errors if by_id["45-index"].name in line and "without its data object" in line]
    assert [line for line in errors if "-ledger-34: data object without an index" in line]
    assert {path.rpartition("-ledger-")[2] for path in objects_in(tmp_path / "copy")} == {
        "26",
        "26-index",
        "33",
        "33-index",
    }
    rows = json.loads(output("offload", url, str(tmp_path / "copy"), "--json", code=1))
    assert {row["source_ledger_id"]: row["outcome"] for row in rows} == {
        26: "skipped", 33: "skipped", 34: "failed", 42: "failed", 44: "failed", 45: "failed", 201: "failed"
    }  # fmt: skip
    assert all((row["error"] is not None) == (row["outcome"] == "failed") for row in rows)
    # Whoever asks for a topic is not told of the others.
    assert output("offload", url, str(tmp_path / "one"), "--topic", PLAIN).startswith("ledgers copied: 1 (")


def test_halves_of_ledgers_that_are_whole_elsewhere_are_no_failure(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    made = [offload([b"entry"] * 9, 5, uuid=uuid) for uuid in (1, 2, 3)]
    url = put_in_folder(source, *made)
    (source / f"{made[1].uuid}-ledger-5").unlink()
    (source / f"{made[2].uuid}-ledger-5-index").unlink()
    assert output("offload", url, str(tmp_path / "copy")).startswith("ledgers copied: 1 (")
    assert objects_in(tmp_path / "copy") == made[0].objects


def test_an_empty_bucket_is_copied_as_one(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    assert output("offload", str(tmp_path / "source"), str(tmp_path / "copy")) == COPIED.format(0, "0 B", 0, 0)
    assert output("offload", str(tmp_path / "source"), str(tmp_path / "copy"), "--json") == "[]\n"
    assert output("offload", str(tmp_path / "source"), str(tmp_path / "copy"), "--unbatch").startswith(
        "ledgers copied: 0"
    )


EACH_WAY: list[list[str]] = [[], ["--new-uuid"], ["--unbatch"]]


@pytest.mark.parametrize("options", EACH_WAY, ids=" ".join)
def test_what_a_topic_lacks_fails_also_where_only_that_topic_is_asked_for(
    options: list[str], s3: S3Server, s3_bucket: str, tmp_path: Path
) -> None:
    """The user metadata of a broken index names its topic, as that of a data object does; where it does not, it may be any topic's."""
    bucket = lossy_s3(s3, s3_bucket)
    whole, broken = ledger(1), ledger(2)
    for made in (whole, broken):
        bucket.put(made)
    bucket.put_object(key_of(broken, "-index"), b"no index")
    target = tmp_path / "target"
    asked = ["offload", bucket.url, str(target), "--topic", TOPIC, *options]
    done = run(*asked, code=1, env=bucket.env)
    assert done.stdout.decode().startswith("ledgers copied: 1 (")
    assert done.stdout.decode().endswith("failed: 1\n")
    assert f"failed  {key_of(broken, '-index')}: " in done.stderr.decode()
    (failed,) = (
        row for row in json.loads(output(*asked, "--json", code=1, env=bucket.env)) if row["outcome"] == "failed"
    )
    assert (failed["topic"], failed["source_ledger_id"]) == (TOPIC, 2)
    # Another topic lacks nothing.
    bucket.put(ledger(3, name=OTHER_NAME), name=OTHER_NAME)
    done = run("offload", bucket.url, str(tmp_path / "other"), "--topic", OTHER, *options, env=bucket.env)
    assert done.stdout.decode().endswith("failed: 0\n")
    assert done.stderr == b""
    bucket.put_object(key_of(broken), broken.data, name=None)
    bucket.put_object(key_of(broken, "-index"), b"no index", name=None)
    done = run("offload", bucket.url, str(tmp_path / "again"), "--topic", OTHER, *options, env=bucket.env)
    assert "the topic of 1 ledgers in this bucket is unknown (ids 2)" in done.stderr.decode()
    assert "failed: 1\n" in output("offload", bucket.url, str(tmp_path / "all"), *options, code=1, env=bucket.env)


def test_a_ledger_whose_other_copy_is_lost_fails_once_for_each(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    url = put_in_folder(tmp_path / "source", ledger(2), ledger(2, uuid=20, messages=70))
    (tmp_path / "source" / key_of(ledger(2))).unlink()
    for asked in ([], ["--topic", TOPIC]):
        text = output("offload", url, str(tmp_path / "target"), *asked, code=1)
        assert text == COPIED.format(0, "0 B", 0, 2)
    assert objects_in(tmp_path / "target") == {}


SAVED = SchemaVersion(0, SchemaInfo("STRING"), 1_700_000_000_000, source="http://admin")


def saved_in(url: str) -> SavedSchemas:
    return SavedSchemas(open_bucket(url).raw_store)


def two_topics(folder: Path) -> str:
    """Make a bucket of two topics, each with a saved schema."""
    folder.mkdir()
    url = put_in_folder(folder, offload([b"a", b"bc"], 1), offload([b"d"], 2, name=OTHER_NAME))
    for topic in (TOPIC, OTHER):
        saved_in(url).add(topic, [SAVED])
    return url


def test_saved_schemas_of_copied_topics_are_copied(tmp_path: Path) -> None:
    url, target = two_topics(tmp_path / "source"), str(tmp_path / "to")
    assert ", schemas: 1, " in output("offload", url, target, "--topic", TOPIC)
    assert saved_in(target).all_versions() == {TOPIC: (SAVED,)}
    assert ", schemas: 1, " in output("offload", url, target)
    assert saved_in(target).all_versions().keys() == {TOPIC, OTHER}
    assert "schemas" not in output("offload", url, target)


def test_another_schema_of_the_same_number_is_an_error_that_names_both(tmp_path: Path) -> None:
    url, target = two_topics(tmp_path / "source"), tmp_path / "to"
    target.mkdir()
    theirs = replace(SAVED, schema=SchemaInfo("INT64"))
    saved_in(str(target)).add(TOPIC, [theirs])
    for options in ((), ("--dry-run",)):
        done = run("offload", url, str(target), *options, code=2)
        assert f"version 0 is of type STRING in file://{tmp_path}/source/_ledgerfs/schemas, and".encode() in done.stderr
        assert f"of type INT64, in file://{target}/_ledgerfs/schemas".encode() in done.stderr
    assert [path.name for path in target.iterdir()] == ["_ledgerfs"]
    assert saved_in(str(target)).versions(TOPIC) == (theirs,)
    # It is in the way of its own topic only.
    run("offload", url, str(target), "--topic", OTHER)


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    url, target = two_topics(tmp_path / "source"), str(tmp_path / "to")
    assert output("offload", url, target, "--dry-run").splitlines() == [
        f"would copy  ledger 1 of {TOPIC}: 2 entries, 3 B",
        f"would copy  ledger 2 of {OTHER}: 1 entries, 1 B",
        "ledgers to copy: 2 (4 B of entries), schemas: 2, there already: 0, failed: 0",
    ]
    assert not Path(target).exists()
    run("offload", url, target, "--topic", TOPIC)
    before = objects_in(Path(target) / "_ledgerfs" / "schemas")
    reported = json.loads(output("offload", url, target, "--dry-run", "--json"))
    assert [(one["ledger_id"], one["outcome"], one["entries"], one["bytes"]) for one in reported] == [
        (1, "skipped", 2, 3),
        (2, "planned", 1, 1),
    ]
    assert objects_in(Path(target) / "_ledgerfs" / "schemas") == before
