"""``ledgerfs rm`` as a user runs it."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from tests.support.commands import LEDGERFS
from tests.support.commands import run as run_process
from tests.support.each import for_each
from tests.support.invoked import run
from tests.support.ledgers import Offload, offload, put_in_folder

TOPIC = "entries/public/default/orders"
MADE = [
    offload([b"entry"] * 9, 1, uuid=1),
    offload([b"entry"] * 9, 2, uuid=2),
    offload([b"other"], 2, uuid=3),
    offload([b"x"], 4, uuid=4, name="public/default/persistent/others"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "bucket"
    made.mkdir()
    put_in_folder(made, *MADE)
    return made


def names_of(*made: Offload) -> set[str]:
    return {key for one in made for key in one.objects}


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_it_asks_and_deletes_on_yes_only(folder: Path) -> None:
    paths = [f"{TOPIC}/1.entries", "entries/public/default/others/4.entries"]
    without = b"nothing was deleted\n"
    for answer, code, end in (
        (b"n\n", 1, without),
        (b"\n", 1, without),
        (b"", 2, b"pass --yes to delete without asking\n"),
    ):
        done = run_process("rm", str(folder), *paths, given=answer, code=code)
        assert done.stdout == b""
        assert done.stderr.endswith(end)
        assert left_in(folder) == names_of(*MADE)
    text = run_process("rm", str(folder), *paths, given=b"maybe\ny\n").stderr.decode()
    assert [line for line in text.splitlines() if line in paths] == paths
    assert "Delete 2 ledgers, 166 B of records?" in text
    assert "deleted: 2 ledgers" in text
    assert left_in(folder) == names_of(MADE[1], MADE[2])


def test_it_asks_on_a_terminal(folder: Path) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [LEDGERFS, "rm", str(folder), f"{TOPIC}/1.entries"], stdin=slave, stdout=slave, stderr=slave, close_fds=True
    )
    os.close(slave)
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(master, 1000)
    assert left_in(folder) == names_of(*MADE)
    os.write(master, b"y\n")
    assert process.wait(timeout=300) == 0
    os.close(master)
    assert left_in(folder) == names_of(*MADE[1:])


def test_copies_and_directories(folder: Path) -> None:
    first, second = (ref for ref in open_bucket(str(folder)).catalog.all_of(2))
    assert run("rm", str(folder), f"{TOPIC}/2@{second.uuid}.entries", "-y").stdout == b""
    assert left_in(folder) == names_of(*(one for one in MADE if one.uuid != second.uuid))
    done = run("rm", str(folder), TOPIC, "--yes", code=2)
    assert b"-r deletes all ledgers in it" in done.stderr
    done = run("rm", str(folder), "-r", TOPIC, f"{TOPIC}/2.entries", TOPIC + "/", "--yes")
    assert b"deleted: 2 ledgers" in done.stderr
    assert left_in(folder) == names_of(MADE[3])
    assert first.uuid != second.uuid
    run("rm", str(folder), "-r", "entries", "--yes")
    assert left_in(folder) == set()


@for_each(
    ("path", "says"),
    [
        (f"{TOPIC}/3.entries", "no such file"),
        ("entries/public/nobody", "no such file"),
        ("nonsense/public", "no such path"),
        ("jsonl/public/default/orders/1.jsonl", "only entries/ can be written to"),
        ("/", "-r deletes all"),
    ],
)
def test_what_is_not_there_or_not_to_be_deleted_deletes_nothing_else_either(path: str, says: str, folder: Path) -> None:
    done = run("rm", str(folder), f"{TOPIC}/1.entries", path, "--yes", code=2)
    assert says in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1
    assert left_in(folder) == names_of(*MADE)


def test_all_views_are_not_deleted_at_once(folder: Path) -> None:
    run("rm", str(folder), "-r", "/", "--yes", code=2)
    run("rm", str(folder), "-r", "parquet", "--yes", code=2)
    assert left_in(folder) == names_of(*MADE)
