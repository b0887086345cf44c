"""The page of all texts of errors and warnings is that of the source, so that a change of a text shows in review."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_page_has_the_texts_of_the_source(monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    made = runpy.run_path("scripts/error_texts.py")
    page = made["page"]()
    assert page == Path("tests/error_texts.md").read_text(encoding="utf-8"), "run: python scripts/error_texts.py"
    assert page.count("\n* ") > 500
    assert {"StoreError", "CorruptLedgerError", "InvalidOptionError"} <= made["classes"]()
