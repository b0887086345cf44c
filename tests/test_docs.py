"""What the README and the docs tell users to type is typed here, as it stands, the scripts of ``examples/`` run, and the site is built.

It is typed beside the folder ``demo`` that ``make demo`` leaves, and with topics of the same bucket in ``tier`` on S3.
"""

import ast
import errno
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from pyarrow.dataset import dataset

from ledgerfs import errors, open_bucket
from ledgerfs.errors import LedgerfsError
from ledgerfs_cluster import errors as cluster_errors
from tests.support.commands import LEDGERFS
from tests.support.forked import can_be_forked, run_forked
from tests.support.programs import Programs
from tests.support.s3 import S3Server, environment_of
from tests.support.spark_daemon import python_of_spark

pytestmark = pytest.mark.usefixtures("quick_java")

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMED = ".*/(plain|json|txn|encrypted|batched-lz4|batched-zstd|partitioned-partition-.)"
"""Topics of the golden set that the pages name."""
DOCUMENTED_ENDPOINT = "http://127.0.0.1:9000"
NO_KINDS = {"ledgerfs-verify", "ledgerfs-schemas", "ledgerfs-head"}  # the names of threads


@pytest.fixture(scope="module")
def tier(s3: S3Server, golden: Path) -> dict[str, str]:
    """The environment of a user whose buckets are ``s3://tier``, and ``s3://tier-backup`` for what is written."""
    s3.make_golden_bucket("tier", golden, NAMED)
    s3.make_bucket("tier-backup", {})
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        **environment_of(s3),
        # Nobody looks at what Spark shows a browser.
        "PYSPARK_SUBMIT_ARGS": "--conf spark.ui.enabled=false pyspark-shell",
    }


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that ``make demo`` leaves in a clone, made by its own script."""
    folder = tmp_path_factory.mktemp("clone") / "demo"
    subprocess.run([ROOT / "scripts" / "demo-bucket", folder], env={**os.environ, "PYTHON": sys.executable}, check=True)
    return folder


@pytest.fixture
def clone(demo: Path, tmp_path: Path) -> Path:
    """A folder with ``demo`` in it, for one block of commands alone."""
    return with_demo(demo, tmp_path)


def with_demo(demo: Path, folder: Path) -> Path:
    shutil.copytree(demo, folder / "demo", copy_function=os.link)
    return folder


@pytest.fixture(scope="module")
def java(tier: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """A process that runs commands with Spark, and snippets: it starts Java, and imports libraries, for the first one only."""
    with Programs({**tier, "PYSPARK_PYTHON": python_of_spark(tmp_path_factory.mktemp("python"))}) as programs:
        yield programs


@pytest.fixture(scope="module")
def run_snippet(
    java: Programs, demo: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], subprocess.CompletedProcess[bytes]]:
    """Runs a snippet of a page: those of a page one after the other in one folder, all in the process that has Java."""
    folders: dict[str, Path] = {}

    def run(page: str, text: str) -> subprocess.CompletedProcess[bytes]:
        if page not in folders:
            folders[page] = with_demo(demo, tmp_path_factory.mktemp("page"))
        snippet = tmp_path_factory.mktemp("snippet") / "snippet.py"
        snippet.write_text(text)
        return java.run(snippet, folder=folders[page])

    return run


def blocks(language: str) -> list[object]:
    found = []
    for page in PAGES:
        texts = re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        name = str(page.relative_to(ROOT))
        found += [pytest.param(name, text, id=f"{name}-{i}") for i, text in enumerate(texts)]
    return found


def only_words(line: str) -> list[str]:
    """Return the words of a line that asks nothing of the shell but to split it, and begins with the command; none of any other line."""
    words = list(shlex.shlex(line, posix=True, punctuation_chars=True))
    is_plain = words[0] == "ledgerfs" and not any(set(word) <= set("();<>|&") for word in words) and "$" not in line
    return shlex.split(line) if is_plain else []


def check(done: subprocess.CompletedProcess[bytes]) -> bytes:
    assert done.returncode == 0, done
    return done.stdout


def run_line(line: str, env: dict[str, str], folder: Path, java: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run what is typed at a prompt: by a shell, or, where it is the command alone, in a process that has libraries and Java already."""
    printed = b""
    monkeypatch.chdir(folder)
    for part in re.split(" && |; ", re.sub(r"\s+# .*", "", line)):
        words = only_words(part)
        if words[1:2] == ["spark"]:
            done = java.run(LEDGERFS, *words[1:], folder=folder)
        elif words and can_be_forked(env):
            done = run_forked(LEDGERFS, tuple(words[1:]), env, timeout=1800)
        else:
            done = subprocess.run(["bash", "-c", part], env=env, capture_output=True, timeout=1800, check=False)
        printed += check(done)
    assert printed or ">" in line, f"{line} prints nothing"


@pytest.mark.parametrize(("page", "text"), blocks("console"))
def test_commands_run_as_documented(
    page: str, text: str, tier: dict[str, str], clone: Path, java: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
    assert lines, page
    for line in lines:
        run_line(line.replace(DOCUMENTED_ENDPOINT, tier["AWS_ENDPOINT_URL"]), tier, clone, java, monkeypatch)


@pytest.mark.parametrize(("page", "text"), blocks("python"))
def test_snippets_run_as_documented(
    page: str, text: str, tier: dict[str, str], run_snippet: Callable[[str, str], subprocess.CompletedProcess[bytes]]
) -> None:
    assert check(run_snippet(page, text.replace(DOCUMENTED_ENDPOINT, tier["AWS_ENDPOINT_URL"]))), "it prints nothing"


def test_every_kind_of_finding_is_documented() -> None:
    page = (ROOT / "docs" / "operating" / "verify.md").read_text()
    places = ("layouts/*/checks/*.py", "layouts/*findings.py", "catalog/*findings.py", "verification/*.py")
    modules = [ast.parse(path.read_text()) for place in places for path in (ROOT / "ledgerfs").glob(place)]
    texts = {node.value for module in modules for node in ast.walk(module) if isinstance(node, ast.Constant)}
    kinds = {text for text in texts if isinstance(text, str) and re.fullmatch("[a-z]+(-[a-z]+)+", text)} - NO_KINDS
    assert kinds >= {"checksum-mismatch", "contradicting-copy", "data-without-index", "chunk-mismatch"}
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in page] == []


def test_every_error_is_documented_with_its_numbers() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (\d) \|", page, re.MULTILINE)
    kinds = [getattr(module, name) for module in (errors, cluster_errors) for name in module.__all__]
    ours = {kind for kind in kinds if issubclass(kind, LedgerfsError) and kind is not LedgerfsError}
    assert sorted(rows) == sorted((kind.__name__, errno.errorcode[kind.code], str(kind.exit_code)) for kind in ours)


def test_the_picture_is_that_of_its_script() -> None:
    kept = ROOT / "docs" / "picture.svg"
    program = "import sys; from scripts import picture; sys.stdout.write(picture.picture())"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == kept.read_text()
    assert ET.fromstring(done.stdout).tag.endswith("svg")


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """It needs no network to be built, and its pages name nothing to be loaded from elsewhere."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    env = {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        **dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9"),
    }
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    pages = {
        page.relative_to(tmp_path).with_suffix("").as_posix(): page.read_text() for page in tmp_path.rglob("*.html")
    }
    assert set(pages) >= {
        page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in PAGES if page.parent != ROOT
    }
    loaded = r"<(?:script|img|iframe)[^>]*\ssrc=\"?https?:[^>]*>|<link[^>]*rel=\"?(?:stylesheet|preconnect|icon)\"?[^>]*https?:[^>]*>"
    assert {name: re.findall(loaded, text) for name, text in pages.items() if re.search(loaded, text)} == {}
    assert "ledgerfs spark export [OPTIONS] BUCKET" in pages["reference/commands"]
    assert 'id="ledgerfs.errors.MissingLedgerError"' in pages["reference/python"]


EXAMPLES = ROOT / "examples"
JSON = "persistent://public/golden/json"
PLAIN = "persistent://public/golden/plain"


def run_example(java: Programs, name: str, *arguments: str) -> str:
    """Run a script in the process that has Java, and return what it prints."""
    return check(java.run(EXAMPLES / name, *arguments)).decode()


def test_topic_history(java: Programs, golden_url: str, s3: S3Server) -> None:
    shown = run_example(java, "topic_history_pandas.py", golden_url)
    table = open_bucket(golden_url).topic(PLAIN).scan().to_arrow()
    assert f"{PLAIN}: 3 ledgers, {table.num_rows} messages" in shown
    keys = {
        key: value
        for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
        if key is not None
    }
    alive = sum(value is not None for value in keys.values())
    assert 0 < alive < len(keys)
    assert f"{len(keys)} keys, {alive} of them have a value" in shown
    other = run_example(java, "topic_history_pandas.py", "s3://tier", JSON, "-o", f"endpoint_url={s3.endpoint}")
    assert f"{JSON}: 3 ledgers, 120 messages" in other
    ended = java.run(EXAMPLES / "topic_history_pandas.py", "/not/there")
    assert ended.returncode == 1
    assert b"BucketNotFoundError" in ended.stderr


def test_export_and_daily_report(java: Programs, golden_url: str, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    shown = run_example(java, "spark_export_and_daily_report.py", golden_url, "--lake", lake)
    bucket = open_bucket(golden_url)
    names = (JSON, PLAIN, "persistent://public/golden/batched-zstd")
    expected = {name: bucket.topic(name).count() for name in names}
    assert Counter(dataset(lake, partitioning="hive").to_table(["topic"])["topic"].to_pylist()) == expected
    report = re.findall(r"^\|(\d{4}-\d\d-\d\d)\|(\S+?) *\|(\d+) ", shown, re.MULTILINE)
    assert {topic: int(messages) for _, topic, messages in report} == expected


def test_read_only_cluster(java: Programs, golden: Path, golden_url: str) -> None:
    before = sorted((path.name, path.stat().st_mtime_ns) for path in (golden / "bucket").iterdir())
    shown = run_example(java, "read_only_cluster.py", golden_url)
    zstd = "persistent://public/golden/batched-zstd"
    count = open_bucket(golden_url).topic(zstd).count()
    assert re.search(rf"^\|{zstd} *\|\S+ \S+ *\|{count} ", shown, re.MULTILINE)
    assert "customer-6" in shown
    assert sorted((path.name, path.stat().st_mtime_ns) for path in (golden / "bucket").iterdir()) == before


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_cells_and_defaults(name: str) -> None:
    """Each is cut into cells, and is about the bucket of ``make demo`` unless told otherwise."""
    text = (EXAMPLES / name).read_text()
    assert text.count("\n# %% ") >= 4
    assert 'Path(__file__).parent.parent / "demo" / "tier"' in text
    assert '"$folder/tier"' in (EXAMPLES.parent / "scripts" / "demo-bucket").read_text()
