"""What commands print of names that would drive a terminal, or that look like markup: as they are, escaped."""

import io
import json
import logging
import sys

import pytest

from ledgerfs.cli.group import run
from ledgerfs.cli.output import print_json, progress

NAME = "persistent://a/b/\x1b]0;title\x07[bold]x[/nothing]\x9b31m:smile:"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_progress_bar_prints_names_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    with progress() as update:
        update(NAME, 1, 10)
        update(NAME, 2, 10)
    shown = terminal.getvalue()
    assert "\x1b]0;" not in shown
    assert "\x9b" not in shown
    assert r"persistent://a/b/\x1b]0;title\x07[bold]x[/nothing]\x9b31m:smile:" in shown


def test_json_holds_nothing_that_drives_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    reported = {NAME: ["\u202e\x7f\U000e0001", "ü"]}
    print_json(reported)
    text = capsys.readouterr().out
    assert json.loads(text) == reported
    assert all(c.isprintable() or c == "\n" for c in text)
    assert "ü" in text


def test_what_libraries_log_is_escaped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["ledgerfs", "--version"])
    monkeypatch.setattr(logging, "lastResort", logging.lastResort)
    run()
    assert logging.lastResort is not None
    logging.lastResort.handle(logging.LogRecord("ledgerfs.store", logging.WARNING, "", 0, "GET %s", (NAME,), None))
    assert r"GET persistent://a/b/\x1b]0;title" in capsys.readouterr().err
