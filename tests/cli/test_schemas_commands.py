"""``ledgerfs schemas …`` as a user runs it: output, exit codes, and what is in the bucket afterwards."""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ledgerfs.cli.schemas.set import set_schema
from ledgerfs.formats.schemas.schema_info import BY_HAND, SchemaInfo, SchemaVersion
from ledgerfs.schemas.saved_schemas import SavedSchemas, saved_schemas_at
from tests.support.admin_api import AdminServer, answers_of, golden_answers, schema_json, serving
from tests.support.commands import output as output_of_process
from tests.support.commands import run as run_process
from tests.support.each import for_each
from tests.support.invoked import Done, output, run
from tests.support.ledgers import offload, put_in_folder
from tests.support.s3 import S3Server, environment_of

ORDERS = "public/default/orders"
TOPIC = f"persistent://{ORDERS}"
AVSC = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'


def schemas(*arguments: str, **options: Any) -> Done:
    return run("schemas", *arguments, **options)


def shown(*arguments: str, **options: Any) -> str:
    return output("schemas", *arguments, **options)


@pytest.fixture
def orders() -> Iterator[AdminServer]:
    versions = [schema_json(0, '"int"', 1_700_000_000_000), schema_json(1, AVSC, 1_700_000_060_000, "JSON", a="b")]
    with serving(answers_of(ORDERS, versions)) as admin:
        yield admin


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bucket with one ledger of that topic."""
    (tmp_path / "bucket").mkdir()
    put_in_folder(tmp_path / "bucket", offload([b"x"]))
    return tmp_path / "bucket"


def test_all_golden_topics_are_saved_listed_and_shown(golden_typed: Path, tmp_path: Path) -> None:
    with serving(golden_answers(golden_typed)) as admin:
        place = ("--to", f"{tmp_path}/schemas")
        done = run_process("schemas", "save", admin.url, f"{golden_typed}/bucket", *place)
        assert b"97 schema versions of 71 topics, 99 new; 5 topics have no schema" in done.stderr
        reported = json.loads(shown("save", admin.url, f"{golden_typed}/bucket", *place, "--json"))
        assert len(reported["topics"]) == 76
        assert {(one["new"], one["error"]) for one in reported["topics"]} == {(0, None)}
    place = (f"{golden_typed}/bucket", "--from", f"{tmp_path}/schemas")
    listed = json.loads(output_of_process("schemas", "ls", *place, "--json"))
    assert len(listed) == 99
    lines = shown(
        "ls", f"{golden_typed}/bucket", "public/typed/avro-deleted", "--from", f"{tmp_path}/schemas"
    ).splitlines()
    assert [line.split()[1:3] for line in lines[1:]] == [["1", "(deleted)"], ["2", "AVRO"], ["3", "AVRO"]]
    assert lines[2].endswith(f"2026-11-22 14:17  c: string, a: long  {admin.url}")
    printed = output_of_process("schemas", "show", *place, "public/typed/avro-deleted", "--version", "2")
    assert [one["name"] for one in json.loads(printed)["fields"]] == ["c", "a"]
    for name in (
        "avro å b+1",
        "avro-deleted-force",
        "kv-inline-string-protonative",
        "proto",
        "prim-int64",
        "type-changed",
    ):
        topic = f"persistent://public/typed/{name}"
        assert json.loads(shown("show", f"{golden_typed}/bucket", topic, "--json", "--from", f"{tmp_path}/schemas"))


def test_in_the_bucket_itself_and_no_command_minds(orders: AdminServer, s3: S3Server, s3_bucket: str) -> None:
    for key, data in offload([b"x"]).objects.items():
        s3.client.put_object(
            Bucket=s3_bucket, Key=key, Body=data, Metadata={"S3ManagedLedgerOffloaderFormatVersion": "1"}
        )
    url, env = f"s3://{s3_bucket}", environment_of(s3)
    assert b"2 schema versions of 1 topics, 2 new" in schemas("save", orders.url, url, env=env).stderr
    keys = [one["Key"] for one in s3.client.list_objects_v2(Bucket=s3_bucket, Prefix="_ledgerfs/")["Contents"]]
    assert [key.rpartition("/")[0] for key in keys] == ["_ledgerfs/schemas/public/default/orders"] * 2
    assert "foreign" not in output("verify", url, "--json", env=env)
    assert b"other keys" not in run("topics", url, env=env).stderr
    (_, second) = json.loads(shown("ls", url, "--json", env=env))
    assert second == {
        "topic": TOPIC,
        "version": 1,
        "type": "JSON",
        "deletion": False,
        "registered": "2023-11-14T22:14:20.000Z",
        "fields": ["id: long"],
        "source": orders.url,
        "saved": second["saved"],
        "in_effect": True,
        "lost": None,
    }


def test_a_topic_that_fails_is_named_and_the_exit_code_says_so(orders: AdminServer, folder: Path) -> None:
    orders.answers[f"/admin/v2/schemas/{ORDERS}/schemas"] = (500, '{"reason":"no bookies"}')
    done = schemas("save", orders.url, str(folder), code=1)
    assert f"{TOPIC}: not saved: ".encode() in done.stderr
    assert b"no bookies" in done.stderr
    assert b"1 topics failed" in done.stderr
    reported = json.loads(shown("save", orders.url, str(folder), "--json", code=1))
    assert "no bookies" in reported["topics"][0]["error"]


def test_who_may_not_ask_or_reaches_nobody(orders: AdminServer, folder: Path, tmp_path: Path) -> None:
    orders.token = "s3cret"
    assert b"requires a valid login" in schemas("save", orders.url, str(folder), code=3).stderr
    assert b"s3cret" not in schemas("save", orders.url, str(folder), "--token", "s3cretx", code=3).stderr
    run_process("schemas", "save", orders.url, str(folder), env={"PULSAR_TOKEN": "s3cret"})
    (tmp_path / "token").write_text("s3cret\n")
    schemas("save", orders.url, str(folder), "--token-file", str(tmp_path / "token"), env={"PULSAR_TOKEN": "wrong"})
    assert (
        b"the token file cannot be read"
        in schemas("save", orders.url, str(folder), "--token-file", "/nowhere", code=2).stderr
    )
    short = {"LEDGERFS_STORE_TIMEOUT": "0.5"}
    assert b"cannot be reached" in schemas("save", "http://127.0.0.1:1", str(folder), code=3, env=short).stderr
    assert b"pulsar://host:6650" in schemas("save", "pulsar://127.0.0.1:6650", str(folder), code=2).stderr


def test_a_schema_by_hand_and_back(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(AVSC)
    bucket = str(folder)
    assert b"no schema is saved" in schemas("show", bucket, ORDERS, code=2).stderr
    run_process("schemas", "set", bucket, ORDERS, str(tmp_path / "order.avsc"))
    assert json.loads(shown("show", bucket, ORDERS)) == json.loads(AVSC)
    reported = json.loads(shown("set", bucket, ORDERS, "--type", "int64", "--version", "3", "--json"))
    assert (reported["version"], reported["type"], reported["source"]) == (3, "INT64", "by hand")
    rows = [line.split() for line in shown("ls", bucket).splitlines()[1:]]
    assert [row[1:3] for row in rows] == [["any", "AVRO"], ["3", "INT64"]]
    assert b"version 3, INT64" in schemas("show", bucket, ORDERS).stderr
    schemas("set", bucket, ORDERS, "--version", "3", "--take-back")
    assert b"version any, AVRO" in schemas("show", bucket, ORDERS).stderr
    reported = schemas("show", bucket, ORDERS, "--version", "3", code=2).stderr
    assert b"version 3 is not saved; there are one for any version" in reported
    before = shown("ls", bucket)
    for more in (["--version", "3"], ["--registered", "2026-11-01", "--version", "3"], ["--version", "9"]):
        given = ("schemas", "set", bucket, ORDERS, "--take-back", *more)
        assert b"no schema was set by hand" in run(*given, code=2).stderr
    assert shown("ls", bucket) == before
    schemas("set", bucket, ORDERS, str(tmp_path / "order.avsc"), "--key", "int32", "--separated", "--version", "4")
    assert json.loads(shown("show", bucket, ORDERS))["encoding"] == "SEPARATED"


def test_the_last_word_counts_though_another_clock_is_ahead(orders: AdminServer, folder: Path) -> None:
    schemas("save", orders.url, str(folder))
    ahead = SchemaVersion(0, SchemaInfo("STRING"), source=BY_HAND, saved_ms=int(time.time() * 1000) + 3_600_000)
    saved_schemas_at(f"{folder}/_ledgerfs/schemas").add(ORDERS, [ahead])
    assert json.loads(shown("set", str(folder), ORDERS, "--type", "int64", "--version", "0", "--json"))["in_effect"]
    assert "INT64" in schemas("show", str(folder), ORDERS, "--version", "0").stderr.decode()
    lines = [" ".join(line.split()[1:4]) for line in shown("ls", str(folder), ORDERS).splitlines()[1:]]
    assert sorted(lines) == ["0 AVRO (overridden)", "0 INT64 -", "0 STRING (overridden)", "1 JSON 2023-11-14"]
    reported = json.loads(shown("ls", str(folder), "--json"))
    assert {one["type"]: one["in_effect"] for one in reported} == {
        "AVRO": False, "INT64": True, "STRING": False, "JSON": True,
    }  # fmt: skip
    schemas("set", str(folder), ORDERS, "--version", "0", "--take-back")
    assert "AVRO" in schemas("show", str(folder), ORDERS, "--version", "0").stderr.decode()


def test_a_word_that_is_not_in_effect_is_reported(orders: AdminServer, folder: Path) -> None:
    given = ("schemas", "set", str(folder), ORDERS, "--version", "0")
    run(*given, "--type", "int64")
    done = run(*given, "--type", "string", "--registered", "2026-11-01", code=1)
    assert b"not in effect: INT64 was set by hand for all times of this version" in done.stderr


def test_a_word_that_comes_meanwhile_and_is_later_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add = SavedSchemas.add

    def add_with_another(saved: SavedSchemas, topic: str, versions: Iterable[SchemaVersion]) -> int:
        (mine,) = versions
        add(saved, topic, [replace(mine, schema=SchemaInfo("STRING"), saved_ms=(mine.saved_ms or 0) + 5)])
        return add(saved, topic, [mine])

    monkeypatch.setattr(SavedSchemas, "add", add_with_another)
    done = CliRunner().invoke(set_schema, [str(folder), ORDERS, "--type", "int64"])
    assert done.exit_code == 1
    assert "not in effect: another user has set STRING" in done.stderr


@for_each(
    ("arguments", "text"),
    [
        (["orders"], "expected a file that defines the schema"),
        (["orders", "--type", "int63"], "did you mean int64"),
        (["orders", "--type", "int64", "--separated"], "needs --key"),
        (["orders", "--type", "int64", "--registered", "2026-11-01"], "needs --version"),
        (["orders", "--type", "int64", "--version", "0", "--registered", "last week"], "last week"),
        (["orders", "--type", "int64", "--take-back"], "removes a schema"),
        (["ordres", "--type", "int64"], "orders"),
        (["orders", "/nowhere/order.avsc"], "No such file"),
        (["orders", "--type", "int64", "--property", "x"], "is not KEY=VALUE"),
        (["orders", "--type", "string", "--property", "__charset=klingon"], "unknown character set 'klingon'"),
        (["orders", "--type", "int64", "--key", "int63"], "--key int63: neither a file nor a type"),
        (["orders", "--type", "int64", "--version", "9223372036854775808"], "9223372036854775808 is not in the range"),
        (["orders", "--take-back"], "no schema was set by hand"),
    ],
)
def test_wrong_usage_of_set_changes_nothing(folder: Path, arguments: list[str], text: str) -> None:
    topic, *more = arguments
    assert text in schemas("set", str(folder), f"public/default/{topic}", *more, code=2).stderr.decode()
    assert not (folder / "_ledgerfs").exists()


def test_places_that_are_none(orders: AdminServer, folder: Path, tmp_path: Path) -> None:
    """Ledgers are never taken for schemas that are damaged, nor schemas put among them."""
    nowhere, before = str(tmp_path / "nowhere"), sorted(folder.iterdir())
    for command in (["ls", nowhere], ["show", nowhere, ORDERS], ["ls", nowhere, ORDERS]):
        assert f"{nowhere}: no such bucket or folder".encode() in schemas(*command, code=3).stderr
    for command in (["ls", str(folder)], ["show", str(folder), ORDERS]):
        assert b"no such bucket or folder" in schemas(*command, "--from", nowhere, code=3).stderr
        done = schemas(*command, "--from", f"file://{folder}/", code=2)
        assert b"is the bucket itself" in done.stderr
    for command in (["save", orders.url, str(folder)], ["set", str(folder), ORDERS, "--type", "int64"]):
        assert b"is the bucket itself" in schemas(*command, "--to", str(folder), code=2).stderr
    other = tmp_path / "other"
    other.mkdir()
    put_in_folder(other, offload([b"x"]))
    done = schemas("ls", str(folder), "--from", str(other), code=1)
    assert f"file://{other} is not a folder of saved schemas".encode() in done.stderr
    assert sorted(folder.iterdir()) == before


def test_a_broker_of_another_cluster_has_no_schema_of_the_topics(folder: Path) -> None:
    with serving({}) as other:
        done = schemas("save", other.url, str(folder))
    assert b"0 schema versions of 0 topics" in done.stderr
    assert b"1 topics have no schema" in done.stderr
    assert not (folder / "_ledgerfs").exists()
