"""Which folders of a listing are ledgers, and what is in each.

The offloader's base may be a folder of the bucket, so a ledger's folder is known by the end of its path,
``tenant/namespace/persistent/<topic>/<ledger id>-<uuid>``. Where the name of the managed ledger begins, legacy names with a cluster leave
open: that the ledger's own metadata tells.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ledgerfs.formats.mapfile.names import FileKind, MapFileLedger, parse_ledger_folder, parse_mapfile_key
from ledgerfs.storage.objects import ObjectStat

_PARTS = 5
"""Of the path of a ledger's folder, from the tenant on."""
_NAME_PARTS = (4, 5)


@dataclass(frozen=True, slots=True)
class LedgerFolder:
    """A ledger's folder, as far as its path tells.

    Attributes
    ----------
    path
        Of the topic's folder: the place in the bucket, and the name of the managed ledger.

    """

    path: str
    ledger_id: int
    uuid: str

    @property
    def key(self) -> str:
        """Path of the ledger's folder."""
        return f"{self.path}/{self.ledger_id}-{self.uuid}"

    @property
    def data_key(self) -> str:
        """Path of the ledger's data."""
        return f"{self.key}/data"

    @property
    def index_key(self) -> str:
        """Path of the index of the data."""
        return f"{self.key}/index"

    def place_of(self, managed_ledger: str) -> str | None:
        """Return where in the bucket the managed ledger's name begins, the path before it; None if this is no folder of that one."""
        place = self.path.removesuffix(managed_ledger)
        is_its = len(place) < len(self.path) and len(managed_ledger.split("/")) in _NAME_PARTS
        return place if is_its and (not place or place.endswith("/")) else None

    def name_at(self, place: str) -> str | None:
        """Return the managed ledger of this folder if names begin at a place; None if no name does there."""
        name = self.path.removeprefix(place)
        is_name = self.path.startswith(place) and len(name.split("/")) in _NAME_PARTS
        return name if is_name else None

    def guessed_place(self, known: Iterable[str]) -> str:
        """Return where in the bucket its name begins, in all likelihood: where those of other ledgers do, else with four parts."""
        likely = [place for place in known if self.name_at(place) is not None]
        return max(likely, key=len, default="/".join(self.path.split("/")[:-4]) + "/").removeprefix("/")


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """A ledger's folder, and what was listed in it."""

    folder: LedgerFolder
    data: ObjectStat | None = None
    index: ObjectStat | None = None


class MapFileListing:
    """The objects of a listing that are in ledgers' folders, as its pages come."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[LedgerFolder, dict[FileKind, ObjectStat]] = {}

    def take(self, page: Sequence[ObjectStat]) -> list[ObjectStat]:
        """Take data, indexes, Hadoop's checksums, and folders of ledgers that are empty."""
        rest = []
        for stat in page:
            path = stat.key.rpartition("/")[0]
            if stat.key.endswith("/"):
                folder, kind = ledger_folder(path), FileKind.OTHER
            else:
                folder, kind = ledger_folder(path), _kind_of(stat.key)
                folder = folder if kind is not FileKind.OTHER else None
            if folder is None:
                rest.append(stat)
            else:
                self._found.setdefault(folder, {})[kind] = stat
        return rest

    def folders(self) -> list[FolderFiles]:
        """Return what was found."""
        return [
            FolderFiles(folder, files.get(FileKind.DATA), files.get(FileKind.INDEX))
            for folder, files in self._found.items()
        ]


def ledger_folder(path: str) -> LedgerFolder | None:
    """Return what the path of a folder tells; None for one that is no ledger's."""
    parts = path.split("/")
    parsed = _end_of(parts)
    return None if parsed is None else LedgerFolder("/".join(parts[:-1]), parsed.ledger_id, parsed.uuid)


def _end_of(parts: list[str]) -> MapFileLedger | None:
    return parse_ledger_folder("/".join(parts[-_PARTS:]))


def _kind_of(key: str) -> FileKind:
    parsed = parse_mapfile_key("/".join(key.split("/")[-_PARTS - 1 :]))
    return FileKind.OTHER if parsed is None else parsed.kind
