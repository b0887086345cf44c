"""The examples of `docs/reference/testing.md` run as a user's tests: each inherits a suite, and passes all of it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "testing.md"
EXAMPLES = dict(re.findall(r'^```python title="(\w+\.py)"\n(.*?)^```', PAGE.read_text(), re.MULTILINE | re.DOTALL))


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run what lies in ``folder``, with temporary folders of its own: the machine's are shared, and cleaned by whoever comes.

    What somebody's killed tests left there, as a mount without a process, would be a warning of this run.
    """
    options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(folder / "temporary")]
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("name", ["test_my_store.py", "test_my_dialect.py"])
def test_an_example_passes(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(EXAMPLES[name])
    done = run_pytest(tmp_path, "-W", "error", name)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None, done.stdout
    assert int(passed[1]) > 30
    assert "skipped" not in done.stdout


def test_a_suite_without_its_fixture_says_what_is_missing(tmp_path: Path) -> None:
    text = "from ledgerfs.testing import StoreTests\n\n\nclass TestMine(StoreTests):\n    pass\n"
    (tmp_path / "test_mine.py").write_text(text)
    done = run_pytest(tmp_path, "-x", "test_mine.py")
    assert done.returncode == 1
    assert "a suite of a store has to give the fixture `place`" in done.stdout
