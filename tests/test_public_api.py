"""What `ledgerfs` and its public sub-packages export: lazily, typed, documented, and nothing else to be seen."""

import ast
import importlib
import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

import ledgerfs
import ledgerfs.spark
import ledgerfs.testing
import ledgerfs.vfs
import ledgerfs_cluster.offload
from ledgerfs.errors import IncompleteCopyError, InvalidOptionError, NotFoundError
from ledgerfs.messages.encode.rows import EncodeOptions
from tests.support.ledgers import offload, put_in_folder

ROOT = Path(__file__).parent.parent
PACKAGES = [ledgerfs, ledgerfs.spark, ledgerfs.vfs, ledgerfs.testing]
WANTED = (
    "open_bucket Bucket Topic Scan ScanOptions ScanReport Message LedgerReader TopicInfo verify plan_repair export_topic import_rows "
    "copy_ledgers errors sql"
)
HEAVY = ["numpy", "numba", "pyarrow", "fsspec", "s3fs", "pandas", "pyspark", "click", "rich"]


def loaded_by(program: str) -> set[str]:
    """Return which heavy modules a program imports, in a process of its own."""
    text = f"{program}\nimport sys; print(*set(sys.modules) & set({HEAVY}))"
    return set(subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.split())


def test_importing_costs_nothing() -> None:
    assert loaded_by("import ledgerfs, ledgerfs.spark, ledgerfs.vfs; ledgerfs.errors; dir(ledgerfs)") == set()


@pytest.mark.parametrize("name", ["open_bucket", "Bucket", "Topic", "TopicInfo", "LedgerReader"])
def test_who_opens_a_bucket_loads_neither_numba_nor_pyarrow(name: str) -> None:
    assert loaded_by(f"import ledgerfs; ledgerfs.{name}") <= {"numpy", "fsspec"}


def test_all_that_is_wanted_is_there() -> None:
    assert set(WANTED.split()) | {"__version__"} == set(ledgerfs.__all__)
    assert set(ledgerfs.spark.__all__) == {
        "read_messages",
        "register",
        "Storage",
        "export",
        "verify",
        "catalog",
        "stats",
    }
    assert ledgerfs.vfs.__all__ == ["tree_of"]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_what_is_exported_is_what_types_and_editors_see(package: ModuleType) -> None:
    """What is imported for type checkers comes from the same places."""
    typed = {
        alias.name: node.module
        for block in ast.parse(Path(str(package.__file__)).read_text()).body
        if isinstance(block, ast.If)
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(typed) == set(package.__all__) - {"__version__"}
    for name, module in typed.items():
        assert getattr(package, name) is getattr(importlib.import_module(str(module)), name)
    assert [name for name in dir(package) if not name.startswith("__")] == sorted(
        set(package.__all__) - {"__version__"}
    )
    assert set(package.__all__) <= set(dir(package))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_what_is_not_exported_is_an_attribute_error(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'") as caught:
        package.nothing  # noqa: B018
    assert caught.value.obj is package


def test_sub_packages_beside_functions_of_like_names_are_importable() -> None:
    program = """
import ledgerfs, ledgerfs.spark
ledgerfs.export_topic, ledgerfs.verify, ledgerfs.plan_repair, ledgerfs.copy_ledgers, ledgerfs.import_rows, ledgerfs.spark.export
from ledgerfs.spark import export, verify, catalog, stats
import ledgerfs.export.export, ledgerfs.bucket.topic, ledgerfs.scan.scan, ledgerfs.spark.pipelines.export, ledgerfs.writing.copy_ledgers
from types import ModuleType
assert isinstance(ledgerfs.export, ModuleType) and isinstance(ledgerfs.scan, ModuleType) and isinstance(ledgerfs.bucket, ModuleType)
assert isinstance(ledgerfs.spark.pipelines.export, ModuleType)
for function in (ledgerfs.verify, ledgerfs.copy_ledgers, ledgerfs.import_rows, export, verify, catalog, stats, ledgerfs.spark.export):
    assert callable(function) and not isinstance(function, ModuleType), function
"""
    loaded_by(program)


def test_the_page_names_all_that_is_exported() -> None:
    text = (ROOT / "docs" / "guides" / "python.md").read_text()
    names = [f"ledgerfs.{name}" for name in ledgerfs.__all__ if name != "__version__"]
    names += [
        f"{package.__name__}.{name}"
        for package in (ledgerfs.spark, ledgerfs.vfs, ledgerfs_cluster.offload)
        for name in package.__all__
    ]
    assert [name for name in names if f"`{name}" not in text] == []
    reported = re.findall(r"`(ledgerfs(?:\.(?:spark|vfs|testing)|_cluster\.offload)?)\.(\w+)", text)
    modules = {"fsspec_impl", "store", "spark", "vfs", "testing"}
    assert [
        (module, name) for module, name in reported if name not in {*dir(importlib.import_module(module)), *modules}
    ] == []


def test_options_of_import_rows_are_those_of_the_encoder() -> None:
    parameters, plain = inspect.signature(ledgerfs.import_rows).parameters, EncodeOptions()
    for name in ("batch", "compression", "producer_name", "max_entry_bytes"):
        assert parameters[name].default == getattr(plain, name)
    assert {*EncodeOptions.__dataclass_fields__} - {*parameters} == {"publish_time_ms"}


def rows_of(bucket: str, topic: str) -> list[bytes]:
    return pa.table(ledgerfs.open_bucket(bucket).topic(topic).scan(["value"])).column("value").to_pylist()


def test_rows_are_imported_from_tables_scans_and_files(tmp_path: Path, golden_url: str) -> None:
    target = str(tmp_path / "bucket")
    Path(target).mkdir()
    table = pa.table({"key": ["a", "b"], "value": [b"1", b"2"]})
    assert ledgerfs.import_rows(target, table, "public/default/t").messages == 2
    assert rows_of(target, "public/default/t") == [b"1", b"2"]
    scan = ledgerfs.open_bucket(golden_url).topic("public/golden/plain").scan()
    done = ledgerfs.import_rows(ledgerfs.open_bucket(target), scan, "public/default/scan", compression="zstd", batch=7)
    assert (done.messages, "ledger_id" in done.ignored_columns) == (600, True)
    assert rows_of(target, "public/default/scan") == rows_of(golden_url, "public/golden/plain")
    pa.parquet.write_table(table.append_column("ledger_id", [[1, 2]]), tmp_path / "rows.parquet")
    done = ledgerfs.import_rows(target, tmp_path / "rows.parquet", "public/default/file", ledger_id=5, if_exists="fail")
    assert done.ignored_columns == ("ledger_id",)
    assert rows_of(target, "public/default/file") == [b"1", b"2"]
    with pytest.raises(InvalidOptionError, match="one of fail, skip, new-copy"):
        ledgerfs.import_rows(target, table, "public/default/t", if_exists="replace")


def test_rows_of_other_libraries_are_imported(tmp_path: Path) -> None:
    import pandas as pd
    import polars as pl

    (tmp_path / "bucket").mkdir()
    rows = {"key": ["a", "b"], "value": [b"1", b"2"]}
    for name, table in {"pandas": pd.DataFrame(rows), "polars": pl.DataFrame(rows)}.items():
        ledgerfs.import_rows(tmp_path / "bucket", table, name)
        assert rows_of(str(tmp_path / "bucket"), name) == [b"1", b"2"]


def test_a_scan_that_fails_is_no_half_import(tmp_path: Path, truncated_url: str) -> None:
    """And the error is the scan's own."""
    scan = ledgerfs.open_bucket(truncated_url).topic("public/loss/big-entry").scan()
    (tmp_path / "bucket").mkdir()
    with pytest.raises(ledgerfs.errors.CorruptLedgerError, match="ledger-201"):
        ledgerfs.import_rows(tmp_path / "bucket", scan, "public/default/t")
    with pytest.raises(OSError, match="ledger-201"):
        ledgerfs.import_rows(tmp_path / "bucket", scan.to_arrow_batch_reader(), "public/default/t")
    assert list((tmp_path / "bucket").iterdir()) == []


def test_a_bucket_is_copied_and_what_lacks_is_an_error(tmp_path: Path) -> None:
    whole, lost, other = offload([b"x"], 1, uuid=1), offload([b"y", b"z"], 2, uuid=2), offload([b"o"], 3, uuid=3)
    (tmp_path / "source").mkdir()
    source, target = put_in_folder(tmp_path / "source", whole, lost, other), tmp_path / "target"
    reported: list[int] = []
    report = ledgerfs.copy_ledgers(source, target, on_ledger=lambda one: reported.append(one.ledger_id))
    assert (report.copied, report.skipped, report.size, report.is_complete) == (3, 0, 4, True)
    assert sorted(reported) == [1, 2, 3]
    assert {path.name for path in target.iterdir()} == {path.name for path in (tmp_path / "source").iterdir()}
    (tmp_path / "source" / f"{lost.uuid}-ledger-2").unlink()
    (tmp_path / "source" / f"{other.uuid}-ledger-3").write_bytes(b"")
    for path in target.iterdir():
        path.unlink()
    with pytest.raises(IncompleteCopyError, match="2 of 3 ledgers are not copied; the first one: ") as caught:
        ledgerfs.copy_ledgers(ledgerfs.open_bucket(source), target)
    report = caught.value.report
    assert (report.copied, len(report.failed), len(report.missing), report.is_complete) == (1, 1, 1, False)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    report = ledgerfs.copy_ledgers(source, target, allow_incomplete=True)
    assert (report.copied, report.skipped, len(report.failed), len(report.missing)) == (0, 1, 1, 1)
    with pytest.raises(NotFoundError):
        ledgerfs.copy_ledgers(source, target, topics=["public/default/nothing"])
    for wrong in (
        {"if_exists": "replace"},
        {"unbatch": True, "compression": "zip"},
        {"compression": "zstd"},
        {"ledger_id": 5},
    ):
        with pytest.raises(InvalidOptionError):
            ledgerfs.copy_ledgers(source, tmp_path / "never", **wrong)
        assert not (tmp_path / "never").exists()


def test_topics_are_copied_by_name_and_unbatched(tmp_path: Path, golden_url: str) -> None:
    names = ["public/golden/plain", "public/golden/batched-lz4"]
    report = ledgerfs.copy_ledgers(golden_url, tmp_path, topics=names)
    assert report.is_complete
    assert {topic.name.removeprefix("persistent://") for topic in ledgerfs.open_bucket(tmp_path).topics()} == set(names)
    for name in names:
        assert rows_of(str(tmp_path), name) == rows_of(golden_url, name)
    assert not ledgerfs.verify(tmp_path).is_damaged
    unbatched = ledgerfs.copy_ledgers(
        golden_url, tmp_path / "unbatched", topics=names[1:], unbatch=True, compression="zstd"
    )
    assert unbatched.is_complete
    assert rows_of(str(tmp_path / "unbatched"), names[1]) == rows_of(golden_url, names[1])


def test_verify_and_repair_take_urls(golden_url: str, truncated_url: str) -> None:
    assert not ledgerfs.verify(golden_url, quick=True).is_damaged
    assert ledgerfs.verify(truncated_url, quick=True).is_damaged
    assert [item.kind for item in ledgerfs.plan_repair(truncated_url, older_than_s=0).left] == ["truncated-offload"]
