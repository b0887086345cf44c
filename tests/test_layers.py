"""The layers of the package: imports go one way, between layers and inside each. One test checks one rule in all modules."""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "ledgerfs"
LAYERS = [
    "exports",
    "display",
    "plugins",
    "errors",
    "formats",
    "messages",
    "storage",
    "clusters",
    "cache",
    "disks",
    "ledgers",
    "schemas",
    "layouts",
    "scan",
    "tables",
    "bucket",
    "export",
    "writing",
    "upkeep",
    "offload",
    "lifecycle",
    "recovery",
    "vfs",
    "fsspec_impl",
    "fuse_mount",
    "spark",
    "cli",
    "testing",
]
SUB_ROOMS = {
    "formats": ["proto", "bookkeeper", "pulsar_blob", "mapfile", "managed_ledgers", "schemas"],
    "formats/bookkeeper": ["proto"],
    "formats/managed_ledgers": ["proto"],
    "formats/schemas": ["proto"],
    "messages/encode": ["values"],
    "messages": ["kernels", "proto", "codecs", "text", "values", "decode", "encode", "transforms"],
    "storage": ["folders", "s3", "generic", "zookeeper", "admin_api", "disks"],
    "layouts": ["pulsar_blob", "mapfile", "live_cluster", "bookie"],
    "vfs": ["views"],
    "cli": ["schemas", "bookie", "cluster", "lifecycle", "recover", "spark"],
    "testing": ["stores", "layouts"],
    "spark": ["runtime", "source", "pipelines"],
    "upkeep": ["verification", "repair", "doctor"],
    "lifecycle": ["policy", "brokers", "planning", "acting", "service"],
    "recovery": ["lost", "planning", "settings", "copies", "topics", "checking", "running"],
    "layouts/pulsar_blob": ["checks", "repairs"],
    "layouts/mapfile": ["checks"],
    "layouts/live_cluster": ["bookies"],
}
"""The sub-rooms of each room that has some, in the order of their imports."""
LAYOUTS = ["pulsar_blob", "mapfile"]
WRITER = {
    *(f"layouts.pulsar_blob.{name}" for name in ("writer", "new_ledger", "ledger_group", "columns")),
    *(f"formats.pulsar_blob.{name}" for name in ("object_names", "user_metadata")),
}
"""What rooms above the layouts know of the only one that ledgers are written in."""
BESIDE = {"storage", "layouts", "testing"}
"""Rooms whose sub-rooms know nothing of each other."""
# Adapters stand side by side: none knows another.
STRANGERS = {
    "recovery": {"lifecycle"},
    "fuse_mount": {"fsspec_impl", "spark"},
    "spark": {"fsspec_impl", "fuse_mount"},
    "fsspec_impl": {"fuse_mount", "spark"},
}
STORAGE = {"fsspec", "s3fs", "boto3", "botocore", "aiohttp", "requests", "socket", "asyncio", "threading", "concurrent"}


@cache
def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.stem in LAYERS)


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def is_script_part(node: ast.AST) -> bool:
    """Whether this is ``if __name__ == "__main__":``, where a module is a program that is run, and no longer a layer that is imported."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def child_of(room: Path, module: str) -> str | None:
    """Return which module or sub-room of a room a dotted name is in; None for one of another room."""
    prefix = ".".join(["ledgerfs", *room.relative_to(PACKAGE).parts, ""])
    return module.removeprefix(prefix).partition(".")[0] if module.startswith(prefix) else None


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports_of(path: Path) -> list[str]:
    found = []
    for node in (inner for part in parsed(path).body if not is_script_part(part) for inner in ast.walk(part)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def test_imports_go_one_way() -> None:
    found = []
    for path in modules():
        layer = layer_of(path)
        allowed = {*LAYERS[: LAYERS.index(layer) + 1], "__version__"} - STRANGERS.get(layer, set())
        imported = [name.split(".") for name in imports_of(path)]
        found += [
            f"{path}: {name}" for name in imported if name[0] == "ledgerfs" and len(name) > 1 and name[1] not in allowed
        ]
    assert found == []


def test_no_two_test_modules_have_one_name() -> None:
    names = sorted(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    # pytest imports them by name alone, and leaves out the second one in the same process.
    assert names == sorted(set(names))


def folders_with_packages() -> list[Path]:
    return sorted({path.parent.parent for path in PACKAGE.glob("*/**/__init__.py")} - {PACKAGE})


def test_imports_go_one_way_between_sub_rooms() -> None:
    found = []
    for room in folders_with_packages():
        name = str(room.relative_to(PACKAGE))
        order = SUB_ROOMS[name]
        assert {path.name for path in room.iterdir() if (path / "__init__.py").exists()} == set(order)
        for sub in order:
            allowed = {sub} if name in BESIDE else set(order[: order.index(sub) + 1])
            for path in (room / sub).rglob("*.py"):
                known = {child_of(room, imported) for imported in imports_of(path)} & set(order)
                found += [f"{path} imports {other}" for other in sorted(known - allowed)]
    assert found == []


def test_no_room_above_asks_which_layout_it_is() -> None:
    """Except for imports of the writer: no name, no attribute and no text in code has the name of a layout, docstrings left out."""
    found = []
    for path in modules():
        if layer_of(path) in {"formats", "layouts"} or path.stem == "layouts_known":
            continue
        for name in imports_of(path):
            module = name.partition(".")[2]
            if names_a_layout(module.split(".")) and module.rpartition(".")[0] not in WRITER:
                found.append(f"{path} imports {name}")
        nodes = list(ast.walk(parsed(path)))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            attribute = {ast.Name: "id", ast.Attribute: "attr", ast.Constant: "value"}.get(type(node))
            word = "" if attribute is None or id(node) in docstrings else getattr(node, attribute)
            if isinstance(word, str) and any(layout in word for layout in LAYOUTS):
                found.append(f"{path}: {word}")
    assert found == []


def names_a_layout(words: list[str]) -> bool:
    return any(layout in words for layout in LAYOUTS)


def test_nothing_in_a_room_with_rooms_goes_in_circles() -> None:
    """Modules of the room and its sub-rooms, each as one, import each other in no circle; prepare raises `CycleError`, which names it."""
    for room in folders_with_packages():
        graph: dict[str, set[str]] = {}
        for path in room.rglob("*.py"):
            own = path.relative_to(room).parts[0].removesuffix(".py")
            others = {child_of(room, name) for name in imports_of(path)}
            graph.setdefault(own, set()).update(other for other in others if other not in {None, own})
        TopologicalSorter(graph).prepare()


def test_formats_and_messages_know_no_storage() -> None:
    found = [
        f"{path} imports {name}"
        for path in modules()
        if layer_of(path) in {"formats", "messages"}
        for name in imports_of(path)
        if name.partition(".")[0] in STORAGE
    ]
    assert found == []


def test_every_exception_is_in_errors() -> None:
    """Except those of one module, whose names begin with ``_``: Spark's tasks, and exit codes, know exceptions by this one place."""
    found = [
        f"{path.relative_to(PACKAGE)}: {node.name}"
        for path in modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).endswith(("Error", "Exception", "Warning")) for base in node.bases)
        and path.stem != "errors"
        and not node.name.startswith("_")
    ]
    assert not found


def test_no_vague_names() -> None:
    vague = {"utils", "helpers", "common", "manager", "util", "helper", "misc"}
    assert not [path for path in PACKAGE.rglob("*") if path.stem in vague]
