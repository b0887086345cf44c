"""A golden set as what is left of a lost cluster: its objects in a real bucket, and its metadata as a dump."""

import base64
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from interop.recover_command import RecoverCommand
from interop.s3_server import S3Server
from ledgerfs_cluster.formats.stored_schema import ROOT as SCHEMAS
from ledgerfs_cluster.formats.stored_schema import parse_locator
from ledgerfs_cluster.snapshot.answers import SchemaAnswer
from ledgerfs_cluster.snapshot.dump_file import DumpEnd, DumpHeader, DumpWriter, Record
from ledgerfs_cluster.zookeeper.node import Node

_ARCHIVES = Path(__file__).parents[1] / "tests" / "data" / "golden"


@dataclass(frozen=True)
class LostGolden:
    """``golden`` is the set, unpacked; ``dump`` the file."""

    golden: Path
    s3: S3Server
    dump: Path

    @classmethod
    def of(cls, name: str, folder: Path, s3: S3Server) -> "LostGolden":
        """Unpack a set below ``folder``, and put its objects into an empty bucket."""
        with tarfile.open(_ARCHIVES / f"{name}.tar.xz") as archive:
            archive.extractall(folder)  # our own archive; Debian's Python 3.11.2 knows no filters yet
        golden = folder / name
        reported = json.loads((golden / "objects.json").read_text())
        s3.put_all((key, (golden / "bucket" / key).read_bytes(), one["metadata"]) for key, one in reported.items())
        dump = folder / f"{name}.json.zst"
        _write(dump, golden)
        return cls(golden, s3, dump)

    @property
    def recover(self) -> RecoverCommand:
        """The command about it."""
        return RecoverCommand(self.s3, ("--dump", str(self.dump)))


def _write(dump: Path, golden: Path) -> None:
    with dump.open("wb") as file:
        writer = DumpWriter(file)
        for record in _records(golden):
            writer.write(record)
        writer.flush()


def _records(golden: Path) -> Iterator[Record]:
    """Yield what a dump of the cluster would have had, as far as the set has it."""
    nodes = {path: base64.b64decode(data) for path, data in json.loads((golden / "metadata.json").read_text()).items()}
    yield DumpHeader("pulsar+zk://lost", "/ledgers", 0)
    for path, data in sorted(nodes.items()):
        yield Node(path, data, 0, 0, 0, 0)
    schemas = golden / "schemas" / "_ledgers.json"
    reported = json.loads(schemas.read_text()) if schemas.exists() else {}
    for path, one in reported.items():
        for version in parse_locator(base64.b64decode(one["locator"]), key=path):
            stored = one["entries"].get("{}:{}".format(*version.position))
            payload = None if stored is None else base64.b64decode(stored)
            trouble = "BookKeeper did not have it" if payload is None else None
            yield SchemaAnswer(path.removeprefix(f"{SCHEMAS}/"), version.version, payload, trouble)
    yield DumpEnd(len(nodes), 0)
