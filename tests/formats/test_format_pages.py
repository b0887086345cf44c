"""The examples in ``docs/formats`` are bytes that Pulsar wrote: each line is compared with the golden object that its example names."""

import re
import tarfile
import zlib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "formats").glob("*.md"))
_EXAMPLE = re.compile(r'^```text title="(.+?)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
_LINE = re.compile(r" *(\d+)  (00 \u00d7 \d+|(?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  +(.*))?")


def examples() -> list[object]:
    found = []
    for page in PAGES:
        for name, text in _EXAMPLE.findall(page.read_text()):
            found.append(
                pytest.param(name, text, id=f"{page.stem}-{name.rsplit('/', 2)[-2]}-{name.rsplit('-', 1)[-1]}")
            )
    return found


@cache
def members(archive: str) -> dict[str, bytes]:
    names = {name for page in PAGES for name, _ in _EXAMPLE.findall(page.read_text())}
    with tarfile.open(ROOT / "tests" / "data" / "golden" / f"{archive}.tar.xz") as tar:
        return {one.name: tar.extractfile(one).read() for one in tar if one.name in names}  # type: ignore[union-attr]


def bytes_of(column: str) -> bytes:
    zeros = re.fullmatch(r"00 \u00d7 (\d+)", column)
    return bytes(int(zeros[1])) if zeros else bytes.fromhex(column)


@pytest.mark.parametrize(("name", "text"), examples())
def test_an_example_has_the_bytes_of_the_golden_object(name: str, text: str) -> None:
    """Lines follow each other without a gap, unless there is one between them that says ``…``."""
    content = members(name.split("/", maxsplit=1)[0])[name]
    end = stream_at = None
    plain = ""
    for line in text.splitlines():
        if line.strip() == "…":
            end = None
            continue
        found = _LINE.fullmatch(line)
        assert found, line
        at, part = int(found[1]), bytes_of(found[2])
        assert end in {None, at}, line
        assert content[at : at + len(part)] == part, line
        end = at + len(part)
        if found[3]:
            is_stream = found[3].startswith("zlib of ")
            stream_at, plain = (at, found[3].removeprefix("zlib of ")) if is_stream else (None, "")
        if stream_at is not None:
            inflated = zlib.decompressobj().decompress(content[stream_at:])
            shown = bytes.fromhex(plain.removesuffix(" …"))
            assert inflated[: len(shown)] == shown, line
            assert plain.endswith("…") or inflated == shown, line


def test_each_page_has_an_example() -> None:
    assert [page.name for page in PAGES] == [
        "bookkeeper.md",
        "entries.md",
        "entry-logs.md",
        "mapfile.md",
        "pulsar-blob.md",
        "schemas.md",
    ]
    assert all(_EXAMPLE.search(page.read_text()) for page in PAGES)
