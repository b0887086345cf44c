"""Print the tests that belong to what changed since a commit: ``python scripts/changed_tests.py [REVISION]``.

A module of ``ledgerfs/scan/`` belongs to ``tests/scan/``, one of ``ledgerfs_cluster/offload/`` to ``tests/cluster/offload/``, a test file
to itself, a module of ``tests/support/`` or ``tests/cluster/support/`` to the test files that import it. Changes that
concern all tests (``tests/conftest.py``, ``ledgerfs/errors.py``) are left to ``make test``. Without a revision: what is not committed
yet, or the last commit if everything is.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLACES = {"ledgerfs": "tests", "ledgerfs_cluster": "tests/cluster"}


def changed_files(revision: str | None) -> list[str]:
    """Return the paths that differ from a revision, those that git does not know yet included."""
    untracked = _git("ls-files", "--others", "--exclude-standard")
    if revision is None:
        return [*_git("diff", "--name-only", "HEAD"), *untracked] or _git("diff", "--name-only", "HEAD~1")
    return [*_git("diff", "--name-only", revision), *untracked]


def tests_of(path: str) -> set[str]:
    """Return the test files and folders that belong to a changed file."""
    parts = Path(path).parts
    if parts[0] in PLACES and len(parts) > 2:
        return {f"{PLACES[parts[0]]}/{parts[1]}"}
    if parts[0] != "tests" or not path.endswith(".py"):
        return set()
    if parts[-1].startswith("test_"):
        return {path}
    if "support" in parts:
        module = path.removesuffix(".py").replace("/", ".")
        users = _git("grep", "--untracked", "-lwF", module, "--", "tests/*.py", missing_ok=True)
        return {test for user in users if "/support/" not in user for test in tests_of(user)}
    return {str(Path(path).parent)} - {"tests", "tests/cluster"}


def _git(*arguments: str, missing_ok: bool = False) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=not missing_ok)
    return done.stdout.splitlines()


if __name__ == "__main__":
    changed = changed_files(sys.argv[1] if len(sys.argv) > 1 else None)
    found = {test for path in changed for test in tests_of(path) if (ROOT / test).exists()}
    folders = {test for test in found if not test.endswith(".py")}
    print(*sorted(folders | {test for test in found if not any(test.startswith(f"{folder}/") for folder in folders)}))
