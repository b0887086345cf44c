"""The commands as a user runs them: a process of its own, its output, its exit code."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledgerfs import open_bucket
from ledgerfs.vfs.tree import tree_of
from tests.support.commands import LEDGERFS, running
from tests.support.commands import output as output_of_process
from tests.support.commands import run as run_process
from tests.support.each import for_each
from tests.support.invoked import output, run
from tests.support.ledgers import offload, put_in_folder
from tests.support.s3 import CREDENTIALS, Fault, FaultProxy, S3Server, environment_of
from tests.support.waiting import wait_until

PLAIN = "entries/public/golden/plain/26.entries"


def errors(*arguments: str, **options: Any) -> list[str]:
    """Return the lines of a command on standard error."""
    return run(*arguments, **options).stderr.decode().splitlines()


def s3_env(s3: S3Server | FaultProxy) -> dict[str, str]:
    return {**environment_of(s3), "AWS_MAX_ATTEMPTS": "1"}


def test_topics_as_a_table_and_as_json(golden_url: str) -> None:
    lines = output_of_process("topics", golden_url).splitlines()
    assert lines[0].split() == ["topic", "ledgers", "entries", "bytes", "oldest", "newest"]
    assert len(lines) == 1 + 35 + 1
    (plain,) = (line.split() for line in lines if line.startswith("persistent://public/golden/plain "))
    assert plain[1:5] == ["3", "600", "146.5", "KiB"]
    topics = {topic["name"]: topic for topic in json.loads(output("topics", golden_url, "--json"))}
    assert topics["persistent://public/golden/plain"]["entries"] == 600
    assert (
        topics["persistent://public/golden/q?x=1&y=#2"]["managed_ledger"]
        == "public/golden/persistent/q%3Fx%3D1%26y%3D%232"
    )
    assert topics["persistent://public/golden/plain"]["created"] == "2026-11-21T06:00:13.025Z"


def test_ls_short_long_and_of_a_file(golden_url: str) -> None:
    assert output_of_process("ls", golden_url) == "arrow/\nentries/\ninfo/\njsonl/\nparquet/\n"
    assert output("ls", golden_url, "entries/public/golden/plain").split() == [
        "26.entries",
        "84.entries",
        "123.entries",
    ]
    size, day, time, name = output("ls", "-l", golden_url, PLAIN).split()
    assert (size, name) == ("53792", "26.entries")
    assert (len(day), len(time)) == (10, 8)
    assert output("ls", "-l", golden_url, "info/public/golden/plain").split()[0] == "-"
    assert "entries/public/golden" not in output("ls", golden_url, "entries/public/golden")


def test_cat_is_the_file_byte_for_byte(golden_url: str, tmp_path: Path) -> None:
    bucket = open_bucket(golden_url)
    paths = [PLAIN, "entries/public/golden/blocks/42.entries"]
    expected = b"".join(opened.read(0, opened.size) for opened in map(tree_of(bucket).open, paths))
    assert run("cat", golden_url, *paths).stdout == run_process("cat", golden_url, *paths).stdout == expected
    target = tmp_path / "out"
    with target.open("wb") as out:
        subprocess.run([LEDGERFS, "cat", golden_url, *paths], stdout=out, check=True)
    assert target.read_bytes() == expected
    with target.open("ab") as out:
        subprocess.run([LEDGERFS, "cat", golden_url, *paths], stdout=out, check=True)
    assert target.read_bytes() == expected * 2


def test_cat_of_a_damaged_ledger_fails(truncated_url: str) -> None:
    (line,) = errors("cat", truncated_url, "entries/public/loss/big-entry/201.entries", code=1)
    assert "d5b0d817-e819-4bc6-8610-c87c1c7bd0e8-ledger-201 at byte 5242880" in line


def test_info_as_a_table_and_as_json(golden_url: str) -> None:
    text = output_of_process("info", golden_url, "42")
    for part in ("persistent://public/golden/blocks", "11906661 (11.4 MiB)", "CRC32C", "127.0.0.1:21001", "10485760"):
        assert part in text
    described = json.loads(output("info", golden_url, "42", "--json"))
    assert described["entries"] == 601
    assert [block["length"] for block in described["blocks"]] == [5242880, 5242880, 1420901]


def test_verify_says_whether_all_is_well(golden_url: str, truncated_url: str) -> None:
    assert (
        output_of_process("verify", golden_url).splitlines()[-1]
        == "ledgers checked: 104 (4,221 entries, 25.6 MiB); no damage"
    )
    assert (
        output("verify", "--quick", golden_url).splitlines()[-1]
        == "ledgers checked: 104 (indexes and sizes); no damage"
    )
    for quick in ([], ["--quick"]):
        lines = output("verify", *quick, truncated_url, code=1).splitlines()
        assert lines[0].startswith(
            "damage  truncated-offload  d5b0d817-e819-4bc6-8610-c87c1c7bd0e8-ledger-201 at byte 5242880: "
        )
    report = json.loads(output("verify", "--json", truncated_url, code=1))
    assert report["damaged"] is True
    assert report["findings"][0]["kind"] == "truncated-offload"


def test_everything_on_s3_with_credentials_of_the_environment(s3_golden: str, s3: S3Server, golden_url: str) -> None:
    env = s3_env(s3)
    assert len(output_of_process("topics", s3_golden, env=env).splitlines()) == 37
    assert run_process("cat", s3_golden, PLAIN, env=env).stdout == run("cat", golden_url, PLAIN).stdout
    described = json.loads(output_of_process("info", s3_golden, "26", "--json", env=env))
    assert described["objects"]["data"]["user_metadata"]["s3managedledgeroffloaderformatversion"] == "1"
    remark, verdict = output_of_process("verify", s3_golden, env=env).splitlines()
    assert remark.startswith("remark  unsaved-schemas  messages of 12 topics have schema versions that are not saved")
    assert verdict == "ledgers checked: 104 (4,221 entries, 25.6 MiB); no damage"


def test_options_of_the_storage(s3_golden: str, s3: S3Server) -> None:
    options = [
        f"-oendpoint_url={s3.endpoint}",
        "-o",
        f"key={CREDENTIALS['key']}",
        "-o",
        f"secret={CREDENTIALS['secret']}",
    ]
    assert len(output("topics", s3_golden, *options).splitlines()) == 37
    assert "not KEY=VALUE" in "\n".join(errors("topics", s3_golden, "-o", "anon", code=2))


def test_each_bad_bucket_gets_one_clear_line(tmp_path: Path, s3: S3Server, s3_bucket: str) -> None:
    (tmp_path / "notes.txt").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    env, keys = s3_env(s3), {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
    for url, variables, code, line in (
        (str(tmp_path / "nowhere"), {}, 3, f"ledgerfs: file://{tmp_path}/nowhere: no such bucket or folder"),
        ("memory://nothing", {}, 3, "ledgerfs: memory:///nothing: no such bucket or folder"),
        ("s3://nowhere-at-all", env, 3, "ledgerfs: s3://nowhere-at-all: no such bucket"),
        (str(tmp_path / "empty"), {}, 0, f"file://{tmp_path}/empty: no offloaded ledgers; the bucket is empty"),
        (f"s3://{s3_bucket}", env, 0, f"s3://{s3_bucket}: no offloaded ledgers; the bucket is empty"),
        (str(tmp_path), {}, 0, f"file://{tmp_path}: no offloaded ledgers; its 2 objects are not ledgers"),
        ("s3://golden", {"AWS_ENDPOINT_URL": s3.endpoint}, 3, "ledgerfs: s3://golden: access denied: "),
        ("s3://BAD_!bucket", keys, 3, "ledgerfs: s3://BAD_!bucket"),
        ("nonsense://x", {}, 2, "ledgerfs: nonsense://x: Protocol not known: nonsense"),
        ("nonsense://user:password@host/x", {}, 2, "ledgerfs: nonsense://***@host/x: Protocol not known: nonsense"),
        ("ftp://user:password@127.0.0.1:1/x", {}, 3, "ledgerfs: ftp://***@127.0.0.1:1/x: the store cannot be reached"),
        ("zip://::/etc/passwd", {}, 2, "ledgerfs: zip:"),
    ):
        (found,) = errors("topics", url, env=variables, code=code)
        assert found.startswith(line), url
    assert len(errors("topics", "s3://x", "-o", "nonsense=1", env=keys, code=2)) == 1


def test_a_store_that_is_not_there_is_one_line_and_soon() -> None:
    env = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    (line,) = errors("topics", "s3://tier", env=env, code=3)
    assert line.startswith("ledgerfs: s3://tier: the store cannot be reached: ")


@for_each(
    "arguments",
    [
        ["ls", "BUCKET", "entries/nobody"],
        ["cat", "BUCKET", "entries/nothing"],
        ["info", "BUCKET", "999"],
        ["info", "BUCKET", "x"],
        ["topics"],
        ["topics", ""],
        ["frobnicate"],
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], golden_url: str) -> None:
    lines = errors(*(golden_url if argument == "BUCKET" else argument for argument in arguments), code=2)
    assert lines


def test_what_needs_attention_is_said_beside_the_topics(tmp_path: Path) -> None:
    whole, orphan = offload([b"x"], 1, uuid=1), offload([b"x"], 2, uuid=2)
    url = put_in_folder(tmp_path, whole, orphan)
    (tmp_path / f"{orphan.uuid}-ledger-2-index").unlink()
    done = run("topics", url)
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr.decode().splitlines() == [
        f"{url}: 1 ledgers are probably still being uploaded and are not read yet (ledger 2 of unknown topic)",
        f"{url}: also 1 data objects without index; `ledgerfs verify` lists them",
    ]


def test_credentials_are_never_printed(s3: S3Server, proxy: FaultProxy) -> None:
    proxy.faults = [Fault("403", matches=lambda method, path, headers: True)]
    env = s3_env(proxy)
    secret = f"secret={CREDENTIALS['secret']}"
    for arguments in (
        ["topics", "s3://golden"],
        ["verify", "s3://golden"],
        ["info", "s3://golden", "26", "-o", secret],
    ):
        done = run(*arguments, env=env, code=3)
        assert CREDENTIALS["secret"].encode() not in done.stdout + done.stderr


def test_ctrl_c_leaves_no_traceback(s3_golden: str, proxy: FaultProxy, s3: S3Server) -> None:
    proxy.faults = [Fault("hang", matches=lambda method, path, headers: method == "GET")]
    command = [LEDGERFS, "verify", s3_golden]
    process = subprocess.Popen(command, env={**os.environ, **s3_env(proxy)}, stdout=-1, stderr=-1)
    wait_until(lambda: bool(proxy.seen) or process.poll() is not None, seconds=300)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=300)
    assert process.returncode == 130
    assert error.decode().strip() == "interrupted"


def shell(command: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, env={**os.environ, **env}, check=False
    )


def test_output_that_cannot_be_written_is_one_line(golden_url: str, tmp_path: Path) -> None:
    full = (2, b"ledgerfs: cannot write the output: No space left on device\n")
    for command in (["topics"], ["topics", "--json"], ["ls"], ["verify", "--quick"]):
        with running(*command, golden_url, printed=Path("/dev/full"), reported=tmp_path / "reported") as process:
            assert (process.wait(300), (tmp_path / "reported").read_bytes()) == full, command
    done = shell(f"'{LEDGERFS}' topics '{golden_url}' > /dev/full")
    assert (done.returncode, done.stderr) == full
    closed = shell(f"'{LEDGERFS}' topics '{golden_url}' >&-")
    assert (closed.returncode, closed.stderr) == (2, b"ledgerfs: standard output is closed\n")


def test_a_reader_that_left_is_no_damage(golden_url: str) -> None:
    for command in (
        f"cat '{golden_url}' entries/public/golden/blocks/42.entries",
        f"ls -l '{golden_url}' entries/public/golden/plain",
    ):
        done = shell(f"'{LEDGERFS}' {command} | true")
        assert done.returncode in {0, 141}
        assert done.stderr == b""


def test_names_that_the_terminal_lacks_or_that_would_drive_it_are_escaped(tmp_path: Path) -> None:
    url = put_in_folder(tmp_path, offload([b"x"], name="a/b/persistent/%0Aledgers+checked%3A+9%1B%5B31m%F0%9F%98%80"))
    for command in ("topics", "verify"):
        text = shell(f"'{LEDGERFS}' {command} '{url}'", PYTHONIOENCODING="ascii").stdout
        assert b"\x1b" not in text
        assert not [line for line in text.splitlines() if line.startswith(b"ledgers checked: 9")]


def test_odd_files_in_a_folder_neither_hang_nor_hide_the_others(tmp_path: Path) -> None:
    made = offload([b"x"], 1, uuid=1)
    url = put_in_folder(tmp_path, made)
    os.mkfifo(tmp_path / f"{made.uuid[:-1]}2-ledger-5-index")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / f"{made.uuid[:-1]}3-ledger-6-index").symlink_to("nowhere")
    assert b"follow_links=true" in run("topics", url, code=3).stderr
    assert len(output("topics", url, "--on-unreadable", "skip", code=1).splitlines()) == 2
    # What a link leads to is nobody's to say; that the ledger of it could not be looked at is.
    shown = run("verify", "--quick", url, code=3).stdout.decode()
    assert "loop" in shown
    assert f"{made.uuid[:-1]}3-ledger-6-index" in shown


@pytest.mark.parametrize("module", ["click", "ledgerfs.cli.topics", "ledgerfs.bucket.bucket"])
def test_an_interrupt_while_the_program_still_loads_leaves_no_traceback(module: str, golden_url: str) -> None:
    program = """
import os, signal, sys
import ledgerfs.cli

class Interrupter:
    def __init__(self, module):
        self.module = module

    def find_spec(self, name, *_):
        if name == self.module:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupter(sys.argv.pop(1)))
ledgerfs.cli.main()
"""
    command = [sys.executable, "-c", program, module, "topics", golden_url]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"interrupted\n")
