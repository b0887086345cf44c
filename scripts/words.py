"""Fail on misspelt words (codespell), and on words that hide who does what: `python scripts/words.py`, a part of `make lint`."""

import re
import subprocess
import sys
from pathlib import Path

WORDS = re.compile(
    r"\b(told|tells|nobody|whoever|somebody|anybody|anew|strangers|doubts|dialects?|remains|living clusters?)\b", re.IGNORECASE
)  # fmt: skip
FOLDERS = ("docs", "ledgerfs", "ledgerfs_cluster")
TEXTS = ("README.md", "CONTRIBUTING.md")


def lines_with_words(folder: str) -> list[str]:
    """Return the lines of the documentation, or of a package, that have such a word, each with its place."""
    paths = [*map(Path, TEXTS), *Path(folder).rglob("*.md")] if folder == "docs" else Path(folder).rglob("*.py")
    found = []
    for path in sorted(paths):
        lines = path.read_text(encoding="utf-8").splitlines()
        found += [f"{path}:{number}: {line.strip()}" for number, line in enumerate(lines, 1) if WORDS.search(line)]
    return found


def main() -> int:
    """Print what is wrong; return 1 if anything is."""
    spelling = subprocess.run(["codespell", *TEXTS, "CHANGELOG.md", *FOLDERS, "scripts", "benchmarks"], check=False)
    found = [line for folder in FOLDERS for line in lines_with_words(folder)]
    if found:
        print(*found, f"{len(found)} lines have words to avoid (scripts/words.py)", sep="\n")
    return int(spelling.returncode != 0 or bool(found))


if __name__ == "__main__":
    sys.exit(main())
