"""``ledgerfs repair`` as a user runs it."""

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ledgerfs.cli.repair import repair
from ledgerfs.errors import BucketNotFoundError, InvalidNameError
from tests.support.ledgers import offload, put_in_folder

TOPIC = "persistent://public/default/orders"


def run(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(repair, arguments)
    assert done.exit_code == code, (done.output, done.exception)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done


@pytest.fixture
def damaged(tmp_path: Path) -> str:
    """A bucket with an empty data object, one that lost its index, and a short one."""
    empty, lost, short = (offload([b"x"] * 9, i, uuid=i) for i in (1, 2, 3))
    put_in_folder(tmp_path, empty, lost, short)
    (tmp_path / f"{empty.uuid}-ledger-1-index").unlink()
    (tmp_path / f"{empty.uuid}-ledger-1").write_bytes(b"")
    (tmp_path / f"{lost.uuid}-ledger-2-index").unlink()
    (tmp_path / f"{short.uuid}-ledger-3").write_bytes(short.data[:-1])
    then = time.time() - 3 * 86400
    for path in tmp_path.iterdir():
        os.utime(path, (then, then))
    return str(tmp_path)


def test_a_whole_bucket(golden_url: str) -> None:
    assert run(golden_url).output == "to do: 0; no action possible or needed: 0\n"
    assert run(golden_url, "--yes").output == "done: 0; failed: 0; no action: 0\n"


def test_a_dry_run_says_what_would_be_done_and_does_nothing(damaged: str) -> None:
    before = sorted(Path(damaged).iterdir())
    lines = run(damaged, code=1).output.splitlines()
    assert [line.split("  ")[0] for line in lines[:-1]] == ["would delete-data", "nothing", "nothing"]
    assert "00000001-ledger-1: it is empty" in lines[0]
    assert any("its topic is unknown: pass `--topic`" in line for line in lines)
    assert any("short-object" in line and "this cannot be repaired" in line for line in lines)
    assert lines[-1] == "to do: 1; no action possible or needed: 2; pass --yes to repair"
    assert sorted(Path(damaged).iterdir()) == before


def test_yes_does_it_and_damage_that_is_left_is_exit_code_1(damaged: str) -> None:
    lines = run(damaged, "--yes", code=1).output.splitlines()
    assert lines[0].startswith("done  delete-data  data-without-index  ")
    assert lines[-1] == "done: 1; failed: 0; no action: 2"
    named = run(damaged, "--yes", "--ledger", "2", "--topic", TOPIC).output
    assert named.startswith("done  rebuild-index  ")
    assert f"({TOPIC})" in named
    assert run(damaged, "--ledger", "2").output.startswith("to do: 0")
    assert run(damaged, "--older-than", "7d", code=1).output.splitlines()[-1].startswith("to do: 0")


def test_json_has_all_of_it(damaged: str) -> None:
    reported = json.loads(run(damaged, "--json", code=1).stdout)
    assert reported["dry_run"] is True
    assert {(item["kind"], item["action"], item["ledger_id"], item["done"]) for item in reported["items"]} == {
        ("data-without-index", "delete-data", 1, False),
        ("data-without-index", "nothing", 2, False),
        ("short-object", "nothing", 3, False),
    }
    done = run(damaged, "--json", "--yes", code=1)
    (item,) = (item for item in json.loads(done.stdout)["items"] if item["action"] != "nothing")
    assert (item["done"], item["error"]) == (True, None)
    assert done.stderr.startswith("done  delete-data")


def test_young_objects_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / f"{offload([b'x']).uuid}-ledger-1").write_bytes(b"")
    assert "left alone: it is " in run(str(tmp_path)).output
    assert "would delete-data" in run(str(tmp_path), "--older-than", "0", code=1).output


def test_what_fails_is_said_and_is_exit_code_1(damaged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    lines = run(damaged, "--yes", "--ledger", "1", code=1).output.splitlines()
    assert lines[0].startswith("failed  delete-data  ")
    assert lines[1] == "done: 0; failed: 1; no action: 0"


def test_wrong_usage(tmp_path: Path) -> None:
    assert "not a duration such as 90m" in run(str(tmp_path), "--older-than", "soon", code=2).output
    assert "needs --ledger" in run(str(tmp_path), "--topic", TOPIC, code=2).output
    wrong = CliRunner().invoke(repair, [str(tmp_path), "--topic", "a://b", "--ledger", "1"])
    assert isinstance(wrong.exception, InvalidNameError)
    assert wrong.exception.exit_code == 2
    nowhere = CliRunner().invoke(repair, [str(tmp_path / "nowhere")])
    assert isinstance(nowhere.exception, BucketNotFoundError)
    assert nowhere.exception.exit_code == 3


def test_names_of_the_bucket_do_not_drive_the_terminal(damaged: str) -> None:
    (Path(damaged) / f".\x1b[31m.{'0' * 32}.part").write_bytes(b"")
    output = run(damaged, code=1).output
    assert "\x1b" not in output
    assert "\\x1b[31m" in output
