"""What is said where nothing can draw."""

import sys
from pathlib import Path

import pytest

from ledgerfs.errors import InvalidOptionError
from ledgerfs.lifecycle.simulation.plot import require_plotting


def test_without_matplotlib_it_is_said_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InvalidOptionError, match=r"pip install 'ledgerfs\[plot\]'"):
        require_plotting(Path("month.svg"))


def test_the_ending_says_the_kind() -> None:
    with pytest.raises(InvalidOptionError, match=r"\.svg or \.png"):
        require_plotting(Path("month.pdf"))
