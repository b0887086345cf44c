"""Commands import what they need, and what stands for those that are not imported says what they say themselves."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from ledgerfs.cli.commands import LazyCommand, LazyGroup
from ledgerfs.cli.group import cli
from ledgerfs.cli.schemas.group import schemas
from ledgerfs.cli.spark.group import spark
from tests.support.each import for_each
from tests.support.invoked import output

HEAVY = {
    "numpy", "numba", "pyarrow", "pandas", "fsspec", "s3fs", "botocore", "aiohttp", "asyncio", "rich", "pyspark", "mfusepy",
}  # fmt: skip
PLUGGED = [cli.get_command(click.Context(cli), name) for name in ("bookie", "cluster", "lifecycle", "recover")]
GROUPS = [cli, schemas, spark, *(one for one in PLUGGED if isinstance(one, LazyGroup))]


def standing(group: LazyGroup) -> dict[str, LazyCommand]:
    """What stands for the commands of a group, whatever has been imported by now."""
    return {name: one for name, one in group._summaries.commands.items() if isinstance(one, LazyCommand)}


def imported_by(commands: list[list[str]]) -> list[set[str]]:
    """Return which heavy modules each command imports, in a process of its own."""
    program = """
import os, sys, ledgerfs.cli
for arguments in {!r}:
    sys.stderr.flush()
    process = os.fork()
    if process:
        assert os.waitpid(process, 0)[1] == 0, arguments
        continue
    sys.argv[1:] = arguments
    try:
        ledgerfs.cli.main()
    except SystemExit as end:
        print("exit", end.code, *sys.modules, file=sys.stderr, flush=True)
        os._exit(0)
    os._exit(1)
"""
    done = subprocess.run([sys.executable, "-c", program.format(commands)], capture_output=True, check=True)
    lines = [line.split() for line in done.stderr.decode().splitlines()]
    assert [line[:2] for line in lines] == [["exit", "0"]] * len(commands), lines
    assert all("ledgerfs.cli.group" in line for line in lines)
    return [HEAVY & set(line) for line in lines]


def test_help_imports_nothing_heavy() -> None:
    asked = [["--help"], ["--version"], ["topics", "--help"], ["ls", "-h"], ["cat", "--help"], ["info", "--help"], ["verify", "--help"],
             ["repair", "--help"], ["rm", "--help"], ["count", "--help"], ["head", "--help"], ["export", "--help"], ["import", "--help"],
             ["offload", "--help"], ["spark", "--help"], ["spark", "verify", "--help"], ["schemas", "--help"],
             ["schemas", "save", "--help"], ["schemas", "ls", "--help"], ["schemas", "show", "--help"], ["schemas", "set", "--help"],
             ["cluster", "--help"], ["cluster", "dump", "--help"], ["cluster", "cursors", "--help"],
             ["cluster", "check", "--help"], ["umount", "--help"]]  # fmt: skip
    for arguments, found in zip(asked, imported_by(asked), strict=True):
        assert found == set(), arguments


@pytest.mark.long
def test_commands_on_a_folder_import_what_they_need(golden_url: str) -> None:
    asked = [
        ["topics", golden_url], ["topics", golden_url, "--json"], ["ls", golden_url],
        ["ls", "-l", golden_url, "entries/public/golden/plain"], ["info", golden_url, "42"], ["info", golden_url, "42", "--json"],
        ["verify", "--quick", golden_url], ["cat", golden_url, "info/public/golden/plain/26.json"],
        ["cat", golden_url, "entries/public/golden/plain/26.entries"], ["cat", golden_url, "jsonl/public/golden/plain/26.jsonl"],
    ]  # fmt: skip
    output("cat", golden_url, "jsonl/public/golden/plain/26.jsonl")  # from now on it is rendered
    for arguments, found in zip(asked, imported_by(asked), strict=True):
        # asyncio is imported by fsspec itself.
        assert found - {"numpy", "fsspec", "asyncio", "rich"} == set(), arguments
        assert "rich" not in found or "--json" not in arguments, arguments


@for_each("group", GROUPS)
def test_what_stands_for_a_command_says_what_it_says(group: LazyGroup) -> None:
    assert standing(group)
    for name, standing_in in standing(group).items():
        command = standing_in.load()
        assert command.name == name
        for limit in (20, 45, 90, 1000):
            assert standing_in.get_short_help_str(limit) == command.get_short_help_str(limit), name
        # Whole in the list of commands.
        assert len(command.get_short_help_str(1000)) <= 61, name
        assert command.hidden is standing_in.hidden, name
        assert command.deprecated == standing_in.deprecated, name


def test_own_options_stand_before_common_ones() -> None:
    text = CliRunner().invoke(cli, ["export", "--help"]).output
    places = [
        text.index(one) for one in ("\nOptions:", "\n  --format", "\n  --columns", "\nCommon options:", "\n  --layout")
    ]
    assert places == sorted(places)


def test_a_misspelt_command_is_reported_the_nearest() -> None:
    command = [Path(sys.executable).parent / "ledgerfs", "topcis"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "No such command 'topcis'" in done.stderr
    assert "topics" in done.stderr


def test_every_command_is_completed_before_anything_is_opened() -> None:
    """Whatever stands there by then: nothing yet, a bucket that is none, an empty text."""
    shell = BashComplete(cli, {}, "ledgerfs", "_LEDGERFS_COMPLETE")
    paths = [[name] for name in standing(cli)]
    paths += [[group.name or "", name] for group in GROUPS[1:] for name in standing(group)]
    for path in paths:
        for before in ([], ["nonsense://x"], [""]):
            offered = [item.value for item in shell.get_completions([*path, *before], "--he")]
            assert offered == ["--help"], (path, before)
