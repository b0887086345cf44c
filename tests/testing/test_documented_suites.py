"""The examples of `docs/reference/testing.md` run as a user's tests: each inherits a suite, and passes all of it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "testing.md"
EXAMPLES = dict(re.findall(r'^```python title="(\w+\.py)"\n(.*?)^```', PAGE.read_text(), re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("name", ["test_my_store.py", "test_my_dialect.py"])
def test_an_example_passes(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(EXAMPLES[name])
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None, done.stdout
    assert int(passed[1]) > 30
    assert "skipped" not in done.stdout


def test_a_suite_without_its_fixture_says_what_is_missing(tmp_path: Path) -> None:
    text = "from ledgerfs.testing import StoreTests\n\n\nclass TestMine(StoreTests):\n    pass\n"
    (tmp_path / "test_mine.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "test_mine.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "a suite of a store has to give the fixture `place`" in done.stdout
