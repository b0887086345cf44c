"""The layers of the package: imports go one way."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "ledgerfs"
LAYERS = ["errors", "formats", "messages", "cache", "vfs", "fsspec_impl", "fuse_mount", "spark", "offload", "cli"]
# Adapters stand side by side: none knows another.
STRANGERS = {
    "fuse_mount": {"fsspec_impl", "spark"},
    "spark": {"fsspec_impl", "fuse_mount"},
    "fsspec_impl": {"fuse_mount", "spark"},
}
STORAGE = {"fsspec", "s3fs", "boto3", "botocore", "aiohttp", "requests", "socket", "asyncio", "threading", "concurrent"}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.stem == "errors")


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def is_script_part(node: ast.AST) -> bool:
    """Whether this is ``if __name__ == "__main__":``, where a module is a program that is run, and no longer a layer that is imported."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def imports_of(path: Path) -> Iterator[str]:
    module = ast.parse(path.read_text())
    for node in (inner for part in module.body if not is_script_part(part) for inner in ast.walk(part)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield node.module or ""


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    layer = layer_of(path)
    allowed = set(LAYERS[: LAYERS.index(layer) + 1]) - STRANGERS.get(layer, set())
    for name in imports_of(path):
        package, _, rest = name.partition(".")
        if package == "ledgerfs" and rest:
            assert rest.partition(".")[0] in allowed, f"{layer} imports {name}"


@pytest.mark.parametrize(
    "path", [path for path in modules() if layer_of(path) in {"formats", "messages"}], ids=lambda path: path.stem
)
def test_formats_and_messages_know_no_storage(path: Path) -> None:
    assert not {name.partition(".")[0] for name in imports_of(path)} & STORAGE


def test_every_exception_is_in_errors() -> None:
    """But for those of one module, whose names begin with ``_``: Spark's tasks, and exit codes, know exceptions by this one place."""
    found = [
        f"{path.relative_to(PACKAGE)}: {node.name}"
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).endswith(("Error", "Exception", "Warning")) for base in node.bases)
        and path.stem != "errors"
        and not node.name.startswith("_")
    ]
    assert not found


def test_every_folder_is_a_layer() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders <= set(LAYERS)


def test_no_vague_names() -> None:
    vague = {"utils", "helpers", "common", "manager", "util", "helper", "misc"}
    assert not [path for path in PACKAGE.rglob("*") if path.stem in vague]
