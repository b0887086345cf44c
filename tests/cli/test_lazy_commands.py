"""Commands import what they need, and what stands for those that are not imported says what they say themselves."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from ledgerfs.cli.cluster.group import cluster
from ledgerfs.cli.commands import LazyCommand, LazyGroup
from ledgerfs.cli.group import cli
from ledgerfs.cli.lifecycle.group import lifecycle
from ledgerfs.cli.schemas.group import schemas
from ledgerfs.cli.spark.group import spark

HEAVY = {
    "numpy",
    "numba",
    "pyarrow",
    "pandas",
    "fsspec",
    "s3fs",
    "botocore",
    "aiohttp",
    "asyncio",
    "rich",
    "pyspark",
    "mfusepy",
}
GROUPS = [cli, cluster, schemas, spark]


def standing(group: LazyGroup) -> dict[str, LazyCommand]:
    """What stands for the commands of a group, whatever has been imported by now."""
    return {name: one for name, one in group._summaries.commands.items() if isinstance(one, LazyCommand)}


COMMANDS = [
    pytest.param(name, one, id=f"{group.name} {name}") for group in GROUPS for name, one in standing(group).items()
]


def imported_by(arguments: list[str]) -> set[str]:
    """Return which heavy modules a command imports, in a process of its own."""
    program = """
import sys, ledgerfs.cli
try:
    ledgerfs.cli.main()
except SystemExit as end:
    print("exit", end.code, *sys.modules, sep=chr(10), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert lines[0] == "exit", lines
    assert lines[1] == "0", lines
    assert "ledgerfs.cli.group" in lines
    return HEAVY & set(lines)


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["topics", "--help"], ["ls", "-h"], ["cat", "--help"], ["info", "--help"], ["verify", "--help"],
     ["repair", "--help"], ["rm", "--help"], ["count", "--help"], ["head", "--help"], ["export", "--help"], ["import", "--help"],
     ["offload", "--help"], ["spark", "--help"], ["spark", "verify", "--help"], ["schemas", "--help"], ["schemas", "save", "--help"],
     ["schemas", "ls", "--help"], ["schemas", "show", "--help"], ["schemas", "set", "--help"], ["cluster", "--help"],
     ["cluster", "dump", "--help"], ["cluster", "retention", "--help"], ["cluster", "offloads", "--help"],
     ["cluster", "cursors", "--help"], ["cluster", "check", "--help"], ["umount", "--help"]],
)  # fmt: skip
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert imported_by(arguments) == set()


@pytest.mark.parametrize(
    "arguments",
    [["topics", "BUCKET"], ["topics", "BUCKET", "--json"], ["ls", "BUCKET"], ["ls", "-l", "BUCKET", "entries/public/golden/plain"],
     ["info", "BUCKET", "42"], ["info", "BUCKET", "42", "--json"], ["verify", "--quick", "BUCKET"],
     ["cat", "BUCKET", "info/public/golden/plain/26.json"]],
)  # fmt: skip
def test_commands_on_a_folder_import_what_they_need(arguments: list[str], golden_url: str) -> None:
    found = imported_by([golden_url if one == "BUCKET" else one for one in arguments])
    # asyncio is imported by fsspec itself.
    assert found - {"numpy", "fsspec", "asyncio", "rich"} == set()
    if "--json" in arguments:
        assert "rich" not in found


@pytest.mark.parametrize(("name", "standing_in"), COMMANDS)
def test_what_stands_for_a_command_says_what_it_says(name: str, standing_in: LazyCommand) -> None:
    command = standing_in.load()
    assert command.name == name
    for limit in (20, 45, 90, 1000):
        assert standing_in.get_short_help_str(limit) == command.get_short_help_str(limit)
    assert command.hidden is standing_in.hidden
    assert command.deprecated == standing_in.deprecated


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_a_group_hands_out_commands_and_no_stand_ins(group: LazyGroup) -> None:
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert isinstance(command, click.Command)
            assert not isinstance(command, LazyCommand)
            assert command is group.get_command(context, name)
        assert group.get_command(context, "nothing") is None


def test_a_misspelt_command_is_told_the_nearest() -> None:
    command = [Path(sys.executable).parent / "ledgerfs", "topcis"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "No such command 'topcis'" in done.stderr
    assert "topics" in done.stderr


def completed(words: str, position: int, **env: str) -> list[str]:
    """Return what bash is offered, in a process of its own."""
    program = Path(sys.executable).parent / "ledgerfs"
    given = {"_LEDGERFS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(position), **env}
    done = subprocess.run([program], env=given, capture_output=True, text=True, check=True)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_a_shell_completes_commands_and_their_options() -> None:
    assert completed("ledgerfs ", 1) == sorted(standing(cli))
    assert completed("ledgerfs to", 1) == ["topics"]
    assert completed("ledgerfs --v", 1) == ["--version"]
    assert completed("ledgerfs spark ", 2) == sorted(standing(spark))
    assert completed("ledgerfs topics --js", 2) == ["--json"]
    assert "--quick" in completed("ledgerfs verify --", 2)
    assert completed("ledgerfs export --format p", 3) == ["parquet"]
    assert "complete" in subprocess.run(
        [Path(sys.executable).parent / "ledgerfs"], env={"_LEDGERFS_COMPLETE": "zsh_source"}, capture_output=True, text=True, check=True
    ).stdout  # fmt: skip


@pytest.mark.parametrize(
    "path",
    [[name] for name in standing(cli)]
    + [[group.name, name] for group in (cluster, lifecycle, schemas, spark) for name in standing(group)],
    ids=" ".join,
)
def test_every_command_is_completed_before_anything_is_opened(path: list[str]) -> None:
    """Whatever stands there by then: nothing yet, a bucket that is none, an empty text."""
    shell = BashComplete(cli, {}, "ledgerfs", "_LEDGERFS_COMPLETE")
    for before in ([], ["nonsense://x"], [""]):
        offered = [item.value for item in shell.get_completions([*path, *before], "--he")]
        assert offered == ["--help"]
