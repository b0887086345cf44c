"""The entry points of this source tree, for tests and the processes that they start: an installed ledgerfs may be of another tree."""

import atexit
import os
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

_PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def plug_in() -> None:
    """Have `importlib.metadata` find the entry points of ``pyproject.toml`` before those of an installed ledgerfs."""
    groups = tomllib.loads(_PROJECT.read_text())["project"]["entry-points"]
    folder = Path(tempfile.mkdtemp(prefix="ledgerfs-entry-points-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    metadata = folder / "ledgerfs-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: ledgerfs\nVersion: 0\n")
    lines = [
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in group.items()) for name, group in groups.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
