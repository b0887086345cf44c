"""An empty option is an error of every command: ``--start "$SINCE"`` with no such variable is not "from the beginning"."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ledgerfs import open_bucket
from ledgerfs.cli.group import cli, run
from ledgerfs.cli.mount_helper import main as mount_helper
from ledgerfs.errors import InvalidOptionError, LedgerfsError
from tests.support.commands import run as run_command
from tests.support.each import for_each
from tests.support.ledgers import offload, put_in_folder


def commands(group: click.Group, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)
        else:
            yield (*names, name), command


def takes_text(param: click.Parameter) -> bool:
    return not (isinstance(param, click.Option) and (param.is_flag or param.count))


def with_empty(command: click.Command, emptied: click.Parameter, empty: str) -> Iterator[list[str]]:
    """Yield arguments of which all are as they should be but one, which is empty, in each way to say so."""
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    given = [empty if param is emptied else {"ledger_id": "1"}.get(param.name or "", "x") for param in arguments]
    needed = [one for one in command.params if isinstance(one, click.Option) and (one.required or one.name == "to")]
    options = {one: [one.opts[-1], "x"] for one in needed if one is not emptied}
    plain = [*(part for option in options.values() for part in option), "--", *given]
    if isinstance(emptied, click.Argument):
        yield plain
        if emptied.nargs == -1:
            yield [*plain, "x"]
            yield [*plain[:-1], "x", empty]
        return
    for name in emptied.opts:
        yield [name, empty, *plain]
        if name.startswith("--"):
            yield [f"{name}={empty}", *plain]
        if emptied.multiple:
            yield [name, f"a={__file__}", name, empty, *plain]


ALL = [(path, command, param) for path, command in commands(cli) for param in command.params if takes_text(param)]
FIRST_WORDS = sorted({path[0] for path, *_ in ALL})


def test_all_commands_are_walked() -> None:
    assert len(ALL) > 120
    assert {("count",), ("umount",), ("spark", "export")} < {path for path, _ in commands(cli)}


@pytest.mark.parametrize("word", FIRST_WORDS)
def test_nothing_empty_is_taken(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No argument and no option of the commands that begin with a word accepts an empty text, or a space."""
    monkeypatch.chdir(tmp_path)
    for path, command, param in (one for one in ALL if one[0][0] == word):
        name = param.metavar or param.human_readable_name.upper()
        named = param.opts[-1] if isinstance(param, click.Option) else name.strip("[].")
        for empty in ("", " "):
            for arguments in with_empty(command, param, empty):
                monkeypatch.setattr(sys, "argv", ["ledgerfs", *path, *arguments])
                assert run() == 2, sys.argv
                said = capsys.readouterr()
                assert said.out == "", sys.argv
                assert "is empty" in said.err, sys.argv
                assert named in said.err, sys.argv
        assert list(tmp_path.iterdir()) == [], path


@pytest.mark.process  # some begin a command that begins others
def test_a_key_needs_a_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No option of ``KEY=VALUE`` accepts a key alone."""
    monkeypatch.chdir(tmp_path)
    checked = 0
    for path, command, param in ALL:
        if not (isinstance(param, click.Option) and param.multiple):
            continue
        if "=" not in (param.metavar or "") and path != ("mount",):
            continue
        checked += 1
        for arguments in with_empty(command, param, "endpoint_url="):
            monkeypatch.setattr(sys, "argv", ["ledgerfs", *path, *arguments])
            assert run() == 2, sys.argv
            said = capsys.readouterr().err
            assert "endpoint_url" in said, sys.argv
            assert "has no value" in said or "is empty" in said, sys.argv
        assert list(tmp_path.iterdir()) == [], path
    assert checked > 20


@for_each(
    "arguments",
    [["", "x"], ["x", ""], ["x", "y", "-o", ""], ["x", "y", "-o", "rw,uid="], ["x", "y", "-o", "endpoint_url=,ro"],
     ["x", "y", "-o", "cache_dir="], ["x", "y", "-t", ""]],
)  # fmt: skip
def test_mount_helper_takes_nothing_empty(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["mount.ledgerfs", *arguments])
    with pytest.raises(SystemExit) as caught:
        mount_helper()
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "is empty" in said or "has no value" in said


@pytest.fixture
def url(tmp_path: Path) -> str:
    folder = tmp_path / "bucket"
    folder.mkdir()
    return put_in_folder(folder, offload([b""]))


def test_empty_variables_of_ours_are_as_if_not_set(url: str) -> None:
    names = ("CATALOG_MAX_AGE", "CACHE_DIR", "CACHE_BYTES", "DISK_CACHE_BYTES", "STORE_TIMEOUT")
    done = run_command("topics", url, env={f"LEDGERFS_{name}": "" for name in names})
    assert b"orders" in done.stdout
    assert done.stderr == b""


def test_empty_arguments_of_python(url: str) -> None:
    topic = open_bucket(url).topic("orders")
    for options in (
        {"start_time": ""}, {"end_time": ""}, {"transactions": ""}, {"on_corrupt": ""}, {"on_encrypted": ""}, {"columns": ""},
    ):  # fmt: skip
        with pytest.raises(InvalidOptionError):
            topic.scan(**options)
    for call in (lambda: open_bucket(url, cache_dir=""), lambda: open_bucket(url).topic(""), lambda: topic.message("")):
        with pytest.raises(LedgerfsError):
            call()
