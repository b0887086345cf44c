"""What a test needs beyond this process, as marks: `make check` runs those that need nothing.

``spark``: Spark and Java. ``mount``: a FUSE mount. ``process``: others that it starts. ``fault``: a store that fails, whose retries and
time-outs take their time. These are found here, by the folder, the fixtures and the code of a test. ``long`` is said by the test itself:
it takes more than a second.
"""

import inspect
import sys
import types
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import pytest

STARTERS = ("subprocess", "multiprocessing", "concurrent.futures.process", "pty")
"""Modules that start processes; so do those of these tests that use them."""
FOLDERS = {
    "tests/spark": "spark",
    "tests/cli/test_spark_commands.py": "spark",
    "tests/test_docs.py": "spark",
    "tests/fuse_mount": "mount",
}
FIXTURES = {"tiny_disk": "mount", "failing_zookeeper": "fault"}

TESTS = str(Path(__file__).parent.parent)
_starts: dict[types.FunctionType, bool] = {}
_needs: dict[str, frozenset[str]] = {}
_EVENTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"}
_started = 0


def _listen(event: str, _: object) -> None:
    global _started
    _started += event in _EVENTS


sys.addaudithook(_listen)


def processes_started() -> int:
    """Return how many processes this one has started."""
    return _started


def needs_of(item: pytest.Item) -> frozenset[str]:
    """Return the marks of a test, but for those that stand there; tests of one function need the same."""
    function = item.nodeid.partition("[")[0]
    if function not in _needs:
        _needs[function] = frozenset(_found_needs(item))
    return _needs[function]


def _found_needs(item: pytest.Item) -> set[str]:
    path = item.path.relative_to(item.config.rootpath)
    found = {need for folder, need in FOLDERS.items() if PurePath(folder) in (path, *path.parents)}
    if isinstance(item, pytest.Function):
        found |= {need for fixture, need in FIXTURES.items() if fixture in item.fixturenames}
        fixtures = [last[-1].func for last in item._fixtureinfo.name2fixturedefs.values()]
        if any("FaultProxy" in _names(inspect.unwrap(made).__code__) for made in fixtures if inspect.isroutine(made)):
            found.add("fault")
        if any(_starts_processes(function) for function in (item.obj, *fixtures)):
            found.add("process")
    return found


def _starts_processes(function: Any) -> bool:
    """Whether a function names something that starts processes, itself or in the functions of tests that it names."""
    function = getattr(function, "__func__", inspect.unwrap(function) if callable(function) else function)
    inner = getattr(function, "hypothesis", None)
    if inner is not None:
        function = inner.inner_test
    if not isinstance(function, types.FunctionType):
        return False
    if function not in _starts:
        _starts[function] = False  # for one that names itself
        names = set(_names(function.__code__))
        _starts[function] = "fork" in names or any(_is_starter(function.__globals__.get(name)) for name in names)
    return _starts[function]


def _is_starter(value: object) -> bool:
    if isinstance(value, types.ModuleType):
        return value.__name__ in STARTERS
    module = str(getattr(value, "__module__", ""))
    if TESTS in str(getattr(sys.modules.get(module), "__file__", "")):
        methods = vars(value).values() if isinstance(value, type) else [value]
        return any(_starts_processes(method) for method in methods)
    return module.startswith(STARTERS)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
