"""Write tests/error_texts.md, the texts of all errors and warnings by class, so that a change shows in review.

Values are named as in the source: ``{ledger_id}``. A test fails if the page differs from the source.
"""

import ast
import inspect
from collections import defaultdict
from pathlib import Path

import ledgerfs.errors
import ledgerfs_cluster.errors

PAGE = Path("tests/error_texts.md")
_PACKAGES = ("ledgerfs", "ledgerfs_cluster")
_BEGIN = """\
# Texts of errors and warnings

`python scripts/error_texts.py` writes this page from the source. An error prints its object and offset before the text.
"""


def classes() -> set[str]:
    """Return the names of the errors and warnings of both packages."""
    modules = (ledgerfs.errors, ledgerfs_cluster.errors)
    return {
        name
        for module in modules
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, (OSError, Warning, ValueError))
        and value.__module__ == module.__name__
    }


def page() -> str:
    """Return the page."""
    texts, names = defaultdict(set), classes()
    for package in _PACKAGES:
        for path in Path(package).rglob("*.py"):
            for name, text in _texts(ast.parse(path.read_text(encoding="utf-8")), names):
                texts[name].add(text)
    parts = [f"## {name}\n\n" + "".join(f"* {text}\n" for text in sorted(texts[name])) for name in sorted(texts)]
    return "\n".join([_BEGIN, *parts])


def _texts(tree: ast.AST, names: set[str], owner: str = "") -> "list[tuple[str, str]]":
    """Return (class, text) of each call of a class of errors, and of each ``super().__init__`` of one."""
    found = []
    for node in ast.iter_child_nodes(tree):
        inner = node.name if isinstance(node, ast.ClassDef) else owner
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            name = owner if called == "super().__init__" else called.rpartition(".")[2]
            if name in names:
                found += [(name, text) for argument in node.args for text in _written(argument)]
        found += _texts(node, names, inner)
    return found


def _written(node: ast.expr) -> list[str]:
    """Return the texts that an argument may be: of a condition both."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr():
            return [
                "".join(str(part.value) if isinstance(part, ast.Constant) else _value(part) for part in node.values)
            ]
        case ast.IfExp(body=body, orelse=orelse):
            return _written(body) + _written(orelse)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [a + b for a in _written(left) or [_braces(left)] for b in _written(right) or [_braces(right)]]
    return []


def _value(part: ast.expr) -> str:
    assert isinstance(part, ast.FormattedValue)
    return _braces(part.value)


def _braces(node: ast.expr) -> str:
    return "{" + ast.unparse(node).replace("\n", " ") + "}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
