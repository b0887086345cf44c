"""What is a path of this machine, and what only looks like one."""

from pathlib import Path

import pytest

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.local_paths import local_path, local_text
from tests.support.each import for_each


@for_each(
    ("given", "path"),
    [
        ("out", "out"),
        ("/data/out", "/data/out"),
        ("../out", "../out"),
        ("a:b", "a:b"),
        ("12:30/x", "12:30/x"),
        ("./s3:/x", f"{Path.cwd()}/s3:/x"),
        ("./-", f"{Path.cwd()}/-"),
        ("--", "--"),
        ("file:///data/out", "/data/out"),
        ("file:/data/out", "/data/out"),
        ("file:///", "/"),
        ("local:///data/out", "/data/out"),
        (Path("/data/out"), "/data/out"),
        (" x", " x"),
    ],
)
def test_paths(given: str | Path, path: str) -> None:
    found = local_path(given, "OUT")
    assert found == Path(path)
    assert local_path(found, "OUT") == found


def test_a_slash_at_the_end_is_kept_where_it_means_something() -> None:
    assert local_text("file:///data/", "OUT") == "/data/"


@for_each(
    "given",
    [
        "",
        "  ",
        "-",
        "s3://bucket/out",
        "S3A://bucket/out",
        "gs://bucket",
        "memory://x",
        "s3:/bucket/out",
        "simplecache::s3://bucket/out",
        "file://out",
        "file://host/out",
        Path("s3://bucket/out"),
    ],
)
def test_what_is_none(given: str | Path) -> None:
    with pytest.raises(InvalidOptionError, match="OUT: "):
        local_path(given, "OUT")


def test_an_error_does_not_show_what_a_url_holds() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        local_path("s3://key:secret@bucket/out", "OUT")
    assert "secret" not in str(caught.value)
    assert "s3://" in str(caught.value)
