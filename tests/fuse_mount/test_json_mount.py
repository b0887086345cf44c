"""Values that are JSON through a mount, while a ledger with another field comes."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.commands import run
from tests.support.json_topics import ledger, put
from tests.support.ledgers import put_in_folder
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="no /dev/fuse")


def test_all_files_have_one_type_before_and_after(tmp_path: Path) -> None:
    url, folder = put(tmp_path / "b", [{"a": 1}], [{"b": 2}]), tmp_path / "mnt"
    folder.mkdir()
    run("mount", url, str(folder), "-o", "values=json", "--refresh", "1s", "--cache-dir", str(tmp_path / "cache"))
    try:
        events = folder / "parquet/public/default/events"
        assert fields(events) == {"1.parquet": ["a", "b"], "2.parquet": ["a", "b"]}
        put_in_folder(tmp_path / "b", ledger(3, {"c": 3}))
        wait_until(lambda: len(list(events.iterdir())) == 3, 300)
        wait_until(lambda: fields(events) == {f"{number}.parquet": ["a", "b", "c"] for number in (1, 2, 3)}, 300)
        lines = (folder / "jsonl/public/default/events/3.jsonl").read_text()
        assert json.loads(lines)["value"] == {"c": 3}
    finally:
        run("umount", str(folder))


def fields(folder: Path) -> dict[str, Any]:
    return {path.name: pq.read_schema(path).field("value").type.names for path in sorted(folder.iterdir())}
