"""Count lines and modules of the core, of the toolkit for clusters, and of the tests, beside their budgets.

``scripts/count`` prints them, and exits with 1 if one is over its budget; ``scripts/count --small`` names the small modules, too.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
CORE_AND_TOOLKIT, TOOLKIT_ALONE, TESTS, SMALL_PERCENT = 92_000, 27_000, 92_000, 5.0
SMALL_LINES = 60


def main() -> int:
    """Print all counts; return 1 if one is over its budget, else 0."""
    package = [path for folder in ("ledgerfs", "ledgerfs_cluster") for path in (ROOT / folder).rglob("*.py")]
    toolkit = [path for path in package if path.is_relative_to(ROOT / "ledgerfs_cluster")]
    tests = [path for folder in ("tests", "interop") for path in (ROOT / folder).rglob("*.py")]
    small = small_modules(package)
    percent = 100 * len(small) / len(package)
    rows = [
        ("core", _lines(package) - _lines(toolkit), len(package) - len(toolkit), None),
        ("toolkit", _lines(toolkit), len(toolkit), TOOLKIT_ALONE),
        ("core and toolkit", _lines(package), len(package), CORE_AND_TOOLKIT),
        ("tests and interop", _lines(tests), len(tests), TESTS),
    ]
    for name, lines, modules, budget in rows:
        print(f"{name:18}{lines:8,} lines {modules:6,} modules{'' if budget is None else f'   budget {budget:,}'}")
    print(f"{'small modules':18}{percent:7.1f}%       {len(small):6,} modules   budget {SMALL_PERCENT}%")
    if "--small" in sys.argv[1:]:
        print(*(f"  {path.relative_to(ROOT)}" for path in small), sep="\n")
    is_over = any(budget is not None and lines > budget for _, lines, _, budget in rows)
    return int(is_over or percent > SMALL_PERCENT)


def small_modules(package: Iterable[Path]) -> list[Path]:
    """Return the modules with few lines and one importer; commands that are imported by name have none."""
    modules = {_dotted(path): path for path in package}
    importers: Counter[str] = Counter()
    for path in modules.values():
        importers.update(_imported(path) & modules.keys())
    found = (path for name, path in sorted(modules.items()) if importers[name] == 1 and path.name != "__init__.py")
    return [path for path in found if _lines([path]) <= SMALL_LINES]


def _imported(path: Path) -> set[str]:
    """Return the dotted names that a module imports: modules, and what may be one, or a name in one."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return found


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _lines(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


if __name__ == "__main__":
    sys.exit(main())
