"""What is no path of this machine is refused where only such a path will do, instead of making a folder ``s3:``, or ``-``."""

import sys
from pathlib import Path

import click
import pytest

from ledgerfs import open_bucket
from ledgerfs.cli.group import cli, run
from ledgerfs.cli.parameter_types import LocalPath
from ledgerfs.errors import InvalidOptionError, LedgerfsError, UnusableUrlError
from ledgerfs.export.export import export_topic
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.fuse_mount.mount_request import absolute_url
from ledgerfs.spark.runtime.option_texts import private_keys
from ledgerfs.spark.source.read_options import read_options
from ledgerfs.tables.row_files import open_rows
from tests.cli.test_empty_values import commands
from tests.support.commands import run as run_command
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.ledgers import offload, put_in_folder

NO_PATHS = ("s3://bucket/out", "gs://bucket/out", "memory://out", "s3:/bucket/out", "simplecache::s3://bucket/out", "-")


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "bucket").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return put_in_folder(tmp_path / "bucket", offload([frame(metadata(), b"x")] * 5))


def nothing_was_made(url: str) -> bool:
    place = Path(url.removeprefix("file://"))
    return list(Path().iterdir()) == [] and len(list(place.iterdir())) == 2


def command_line(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["ledgerfs", *arguments])
    return run()


@for_each("path", NO_PATHS[:-1])
def test_the_folder_of_an_export(
    url: str, path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``-`` is standard output there."""
    assert command_line("export", url, "orders", path, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert "expected a path on this machine" in said
    if "://" in path:
        assert "ledgerfs spark export --to URL" in said
    assert nothing_was_made(url)


@for_each("path", NO_PATHS)
@for_each(
    "arguments",
    [
        ["export", "URL", "orders", "out", "--private-key", "k=PATH"],
        ["mount", "URL", "PATH"],
        ["mount", "URL", "x", "--cache-dir", "PATH"],
        ["mount", "URL", "x", "--log-file", "PATH"],
        ["mount", "URL", "x", "--pid-file", "PATH"],
        ["mount", "URL", "x", "--env-file", "PATH"],
        ["umount", "PATH"],
    ],
)
def test_commands(
    url: str, arguments: list[str], path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [url if one == "URL" else one.replace("PATH", path) for one in arguments]
    assert command_line(*given, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert "a stream (-) is not accepted here" in said if path == "-" else "expected a path on this machine" in said
    assert nothing_was_made(url)


def test_no_command_takes_paths_in_another_way() -> None:
    found = {
        f"{' '.join(path)} {param.name}": param.type
        for path, command in commands(cli)
        for param in command.params
        if isinstance(param.type, click.Path | click.File | LocalPath)
    }
    assert len(found) == 47
    assert all(isinstance(one, LocalPath) for one in found.values())


@for_each("place", ["-", "s3:/tier", "gs:/tier/x", "hdfs:/tier"])
@for_each(
    "arguments",
    [["topics", "PLACE"], ["offload", "URL", "PLACE"], ["mount", "PLACE", "x"], ["import", "PLACE", "URL", "orders"]],
)
def test_what_is_neither_a_url_nor_meant_as_a_path(
    url: str, arguments: list[str], place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [{"URL": url, "PLACE": place}.get(one, one) for one in arguments]
    assert command_line(*given, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert "a stream (-) is not accepted here" in said if place == "-" else "a slash is missing" in said
    assert nothing_was_made(url)


def test_files_as_urls_and_what_is_called_like_one(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Path.cwd()
    assert command_line("export", url, "orders", f"file://{here}/out", monkeypatch=monkeypatch) == 0
    assert command_line("export", url, "orders", "./s3:/out", monkeypatch=monkeypatch) == 0
    assert command_line("export", url, "orders", "./-", monkeypatch=monkeypatch) == 0
    assert command_line("offload", url, "./s3:/tier", monkeypatch=monkeypatch) == 0
    for folder in ("out", "s3:/out", "-"):
        assert (here / folder / "1.parquet").is_file()
    assert {path.name for path in here.iterdir()} == {"out", "s3:", "-"}


def test_the_folder_of_the_cache(url: str) -> None:
    for text in ("s3://bucket/cache", "-", "file://cache"):
        done = run_command("topics", url, env={"LEDGERFS_CACHE_DIR": text}, code=2)
        assert b"LEDGERFS_CACHE_DIR" in done.stderr
        with pytest.raises(InvalidOptionError, match="cache_dir"):
            open_bucket(url, cache_dir=text)
        with pytest.raises(InvalidOptionError, match="cache_dir"):
            LedgerFileSystem(fo=url, cache_dir=text)
    assert nothing_was_made(url)
    run_command("topics", url, env={"LEDGERFS_CACHE_DIR": f"file://{Path.cwd()}/cache"})
    assert (Path.cwd() / "cache" / "files").is_dir()


def test_python(url: str) -> None:
    topic = open_bucket(url).topic("orders")
    fs = LedgerFileSystem(fo=url)
    calls = [
        lambda path: export_topic(topic, path, "jsonl"),
        lambda path: fs.get("entries/public/default/orders", path, recursive=True),
        lambda path: fs.get("entries/public/default/orders/*", path),
        lambda path: fs.get(["entries/public/default/orders/1.entries"], path),
        lambda path: fs.get(["entries/public/default/orders/1.entries"], [path]),
        lambda path: fs.get_file("entries/public/default/orders/1.entries", path),
        lambda path: fs.download("entries/public/default/orders/1.entries", path),
    ]
    for call in calls:
        for path in ("s3://bucket/out", "s3:/bucket/out", "-", ""):
            with pytest.raises(InvalidOptionError):
                call(path)
    with pytest.raises(InvalidOptionError):
        export_topic(topic, Path("s3://bucket/out"), "jsonl")
    assert nothing_was_made(url)
    fs.get("entries/public/default/orders", f"file://{Path.cwd()}/got", recursive=True)
    fs.get("entries/public/default/ord*/*", f"file://{Path.cwd()}/got/")
    assert sorted(path.name for path in Path("got").rglob("*")) == ["1.entries"]
    export_topic(topic, "out", "jsonl")
    assert (Path("out") / "1.jsonl").is_file()


@for_each("place", ["", "-", "s3:/tier"])
def test_places_that_may_be_urls(place: str) -> None:
    for call in (open_bucket, open_rows, absolute_url):
        with pytest.raises(UnusableUrlError):
            call(place)


@for_each(
    "option",
    ["topic", "topics", "topicsPattern", "columns", "startTime", "endTime", "clockSlackMs", "transactions", "includeMarkers", "privateKeys",
     "onEncrypted", "onCorrupt", "checkChecksums", "maxMessageBytes", "partitionBytes", "cacheDir", "catalogMaxAge", "endpoint_url", "anon",
     "storage.region", "fs.s3a.endpoint", "path"],
)  # fmt: skip
def test_options_of_spark_are_not_empty(option: str) -> None:
    for empty in ("", " "):
        with pytest.raises(InvalidOptionError) as caught:
            read_options({"path": "s3://tier", option: empty})
        assert option in str(caught.value)


def test_keys_of_spark_are_local_files() -> None:
    with pytest.raises(LedgerfsError, match="expected a path on this machine"):
        private_keys("k=s3://bucket/key.pem", "privateKeys")
