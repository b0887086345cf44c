"""The examples of `docs/reference/testing.md` run as a user's tests: each inherits a suite, and passes all of it."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "testing.md"
EXAMPLES = dict(re.findall(r'^```python title="(\w+\.py)"\n(.*?)^```', PAGE.read_text(), re.MULTILINE | re.DOTALL))
WITHOUT_FIXTURE = """
from ledgerfs.testing import StoreTests


class TestMine(StoreTests):
    pass
"""


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[ET.Element]]:
    """What pytest reports of each test of a user's files, by file: the two examples, and a suite that lacks its fixture.

    One run has all of them, since it takes long to begin. Its temporary folders are its own: in those of the machine, which are shared, a
    killed test may have left a mount, which would be a warning of this run.
    """
    folder = tmp_path_factory.mktemp("user")
    for name, text in {**EXAMPLES, "test_mine.py": WITHOUT_FIXTURE}.items():
        (folder / name).write_text(text)
    options = ["-q", "-W", "error", "-p", "no:cacheprovider", "--basetemp", "temporary", "--junitxml", "report.xml"]
    command = [sys.executable, "-m", "pytest", *options, *EXAMPLES, "test_mine.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1800, check=False)
    # 1: tests ran, and some of them failed.
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[str, list[ET.Element]] = {}
    for case in ET.parse(folder / "report.xml").iter("testcase"):
        found.setdefault(f"{case.attrib['classname'].partition('.')[0]}.py", []).append(case)
    assert found.keys() == {*EXAMPLES, "test_mine.py"}, done.stdout
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", ["test_my_store.py", "test_my_layout.py"])
def test_an_example_passes(name: str, cases: dict[str, list[ET.Element]]) -> None:
    assert len(cases[name]) > 30
    for case in cases[name]:
        # A case that passed has no outcome: neither a failure, nor an error, nor that it was skipped.
        assert [one.tag for one in case if one.tag in {"failure", "error", "skipped"}] == [], case.attrib["name"]


@pytest.mark.long
def test_a_suite_without_its_fixture_reports_what_is_missing(cases: dict[str, list[ET.Element]]) -> None:
    assert cases["test_mine.py"]
    for case in cases["test_mine.py"]:
        (outcome,) = case.findall("error") + case.findall("failure")
        assert "a suite of a store has to give the fixture `place`" in str(outcome.text), case.attrib["name"]
