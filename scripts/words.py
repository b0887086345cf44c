"""Fail on misspelt words (codespell), and on words that hide who does what: `python scripts/words.py`, a part of `make lint`.

Documentation has none of these words. Code still has some; their lines may only become fewer.
"""

import re
import subprocess
import sys
from pathlib import Path

WORDS = re.compile(
    r"\b(told|tells|nobody|whoever|somebody|anybody|anew|strangers|doubts|dialects?|remains|living clusters?)\b", re.IGNORECASE
)  # fmt: skip
MOST_LINES = {"docs": 0, "ledgerfs": 308, "ledgerfs_cluster": 272}
"""Lines with such a word, by folder; lower a number when you have removed some."""

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
    spelling = subprocess.run(["codespell", *TEXTS, "CHANGELOG.md", *MOST_LINES, "scripts", "benchmarks"], check=False)
    is_wrong = spelling.returncode != 0
    for folder, most in MOST_LINES.items():
        found = lines_with_words(folder)
        if len(found) > most:
            is_wrong = True
            shown = found if most == 0 else [f"{folder}: see `git diff` for new lines with {WORDS.pattern}"]
            print(
                *shown,
                f"{folder}: {len(found)} lines have words to avoid, at most {most} may (scripts/words.py)",
                sep="\n",
            )
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
