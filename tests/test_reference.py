"""What the reference pages tell is what the code has, and nothing that users read points to what they do not have."""

import inspect
import re
from pathlib import Path

import pytest

from benchmarks.measuring import goals_of
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.layouts.pulsar_blob.reader import PulsarLedgerReader
from ledgerfs.messages.decode.table_schema import MESSAGE_SCHEMA
from ledgerfs.scan.options import SCAN_OPTIONS
from ledgerfs.storage.traffic import TrafficStats

ROOT = Path(__file__).parent.parent
FOLDERS = ("ledgerfs", "docs", "examples", "benchmarks", "interop", "scripts", "tests")
_PYTHON, _MESSAGES = "guides/python.md", "reference/messages.md"
_ELSEWHERE = re.compile(r"\bfacts/|\bDESIGN\b|§")


def test_nothing_cites_what_is_not_in_the_repository() -> None:
    files = [
        path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".md", ".proto"}
    ]
    files += [*ROOT.glob("*.md"), *ROOT.glob("*.py")]
    assert len(files) > 300
    found = [str(path) for path in files if path != Path(__file__) and _ELSEWHERE.search(path.read_text())]
    assert found == []


@pytest.mark.parametrize(
    ("page", "names"),
    [
        (_PYTHON, list(inspect.signature(open_bucket).parameters)[1:]),
        (_PYTHON, [name for name in TrafficStats.__dataclass_fields__ if not name.startswith("_")]),
        (_MESSAGES, list(SCAN_OPTIONS)),
        (_MESSAGES, MESSAGE_SCHEMA.names),
    ],
)  # fmt: skip
def test_a_page_names_all_of_them(page: str, names: list[str]) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert names
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


def test_options_of_the_filesystem_are_reported() -> None:
    text = "".join((ROOT / "docs" / page).read_text() for page in ("guides/fsspec.md", _PYTHON))
    names = [
        name
        for name, one in inspect.signature(LedgerFileSystem.__init__).parameters.items()
        if one.kind is one.KEYWORD_ONLY
    ]
    assert names
    assert [name for name in names if f"`{name}`" not in text] == []


@pytest.mark.parametrize(("subject", "cls"), [("bucket", Bucket), ("ledger", PulsarLedgerReader)])
def test_the_page_of_python_reports_of_nothing_that_is_not_there(subject: str, cls: type) -> None:
    text = (ROOT / "docs" / _PYTHON).read_text()
    names = set(re.findall(rf"`{subject}\.(\w+)", text))
    assert len(names) > 4
    assert [name for name in names if not hasattr(cls, name)] == []


@pytest.mark.parametrize("benchmark", ["cold_start", "read", "decode", "write", "spark"])
def test_a_benchmark_prints_the_rows_of_the_performance_page(benchmark: str) -> None:
    source, rows = (ROOT / "benchmarks" / f"{benchmark}.py").read_text(), goals_of(benchmark)
    assert rows
    assert [row for row in rows if f'"{row}"' not in source] == []
    assert f"-m benchmarks.{benchmark}\n" in (ROOT / "Makefile").read_text()
