"""Which folders of a listing are ledgers, and what is in each.

The offloader's base may be a folder of the bucket, so a ledger's folder is known by the end of its path,
``tenant/namespace/persistent/<topic>/<ledger id>-<uuid>``. Where the name of the managed ledger begins, legacy names with a cluster leave
open: that the ledger's own metadata tells.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ledgerfs.catalog.missing_ledgers import UNKNOWN
from ledgerfs.formats.mapfile.names import KINDS, FileKind, nearly_a_ledger, parse_ledger_folder, parse_ledger_name
from ledgerfs.storage.objects import ObjectStat

_PARTS = 5
"""Of the path of a ledger's folder, from the tenant on."""
_NAME_PARTS = (4, 5)
_DOMAIN = "persistent"
_NO_UUID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class LedgerFolder:
    """A ledger's folder, as far as its path tells.

    Attributes
    ----------
    path
        Of the topic's folder: the place in the bucket, and the name of the managed ledger.
    ledger_id
        The id by the folder's name; a guess where that is not as Pulsar writes it, and -1 where there is nothing to guess from.
    name
        Path of the ledger's folder below that of the topic, where that is not as Pulsar writes it: then nothing tells the uuid. It is
        empty where the ledger's files are in the topic's folder itself.
    fault
        What is wrong with name or path, so that it is no ledger, whatever is in it; empty where nothing is.

    """

    path: str
    ledger_id: int
    uuid: str
    name: str | None = None
    fault: str = ""

    @property
    def key(self) -> str:
        """Path of the ledger's folder."""
        name = f"{self.ledger_id}-{self.uuid}" if self.name is None else self.name
        return f"{self.path}/{name}".removeprefix("/").removesuffix("/")

    @property
    def is_in_a_topic(self) -> bool:
        """Whether the path tells whose it is."""
        return not self.fault or self.name is not None

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
        """Return where in the bucket its name begins, in all likelihood: where those of known ledgers do, else with four parts."""
        likely = [place for place in known if self.name_at(place) is not None]
        return max(likely, key=len, default="/".join(self.path.split("/")[:-4]) + "/").removeprefix("/")

    @property
    def exact_place(self) -> str:
        """The folder's own path, marked as such (`ledgerfs.layouts.mapfile.rows.key_of_missing`), where place and name do not make it."""
        return f"{self.key}//"


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """A ledger's folder, and what was listed in it, or of it itself; ``has_more``: whether other files in it have bytes."""

    folder: LedgerFolder
    data: ObjectStat | None = None
    index: ObjectStat | None = None
    itself: ObjectStat | None = None
    has_more: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether not one byte is in it, as far as the store let us look."""
        stats = (stat for stat in (self.data, self.index, self.itself) if stat is not None)
        return not (self.has_more or any(stat.size or stat.refused for stat in stats))


@dataclass(slots=True)
class NameStarts:
    """Where in the bucket the names of managed ledgers begin, as the metadata of ledgers tells it; of others that is guessed by these."""

    _by_path: dict[str, str] = field(default_factory=dict)
    _places: set[str] = field(default_factory=set)

    def learn(self, place: str, managed_ledger: str) -> None:
        """Learn the place of a name that metadata has; where those of one folder contradict each other, the shortest counts."""
        path = f"{place}{managed_ledger}"
        self._by_path[path] = min(place, self._by_path.get(path, place))
        self._places.add(place)

    def guess(self, folder: LedgerFolder) -> str:
        """Return where the name of a folder begins: where that of another ledger of the same topic's folder does, if there is one."""
        place = self._by_path.get(folder.path)
        return folder.guessed_place(self._places) if place is None else place


class MapFileListing:
    """The objects of a listing that are in ledgers' folders, as its pages come.

    Attributes
    ----------
    at_top
        Which of a ledger's files are at the top of what was opened, in no folder.

    """

    __slots__ = ("_found", "_with_more", "at_top")

    def __init__(self) -> None:
        self._found: dict[LedgerFolder, dict[FileKind, ObjectStat]] = {}
        self._with_more: set[LedgerFolder] = set()
        self.at_top: set[str] = set()

    def take(self, page: Sequence[ObjectStat]) -> list[ObjectStat]:
        """Take data, indexes, Hadoop's checksums, and folders of ledgers that are empty, or closed to us."""
        return [stat for stat in page if not self._take(stat)]

    def may_be_behind(self, key: str) -> bool:
        """Whether a link stands where the folder of a topic would, or below one, or beside folders on the way to ledgers."""
        above, _, name = key.rpartition("/")
        parts = above.split("/")
        if _DOMAIN in parts[2:] or (len(parts) >= 2 and name == _DOMAIN):
            return True
        return any(not above or f"{folder.path}/".startswith(f"{above}/") for folder in self._found)

    def folders(self) -> list[FolderFiles]:
        """Return what was found."""
        return [
            FolderFiles(
                folder,
                files.get(FileKind.DATA),
                files.get(FileKind.INDEX),
                files.get(FileKind.OTHER),
                folder in self._with_more,
            )
            for folder, files in self._found.items()
        ]

    def _take(self, stat: ObjectStat) -> bool:
        path, _, name = stat.key.rpartition("/")
        kind = KINDS.get(name) if name else FileKind.OTHER
        folder = None if kind is None else ledger_folder(path)
        if kind is None or folder is None:
            return self._take_odd(stat, path.split("/"), name)
        self._add(folder, kind, stat)
        return True

    def _add(self, folder: LedgerFolder, kind: FileKind, stat: ObjectStat) -> None:
        self._found.setdefault(folder, {})[kind] = stat
        if kind is FileKind.CHECKSUM and stat.size:
            self._with_more.add(folder)

    def _take_odd(self, stat: ObjectStat, parts: list[str], name: str) -> bool:
        """Take what looks like a ledger, and is not as Pulsar writes one: passed over, it would be gone without a word."""
        kind = KINDS.get(name)
        if parts == [""]:
            self.at_top |= {name} & KINDS.keys()
            parts = []
        if name and (folder := ledger_folder(stat.key)) is not None:
            # A file, or a link, in place of the folder.
            self._found.setdefault(folder, {})[FileKind.OTHER] = stat
            return True
        for count in range(1, len(parts) + 1):
            folder = ledger_folder("/".join(parts[:count]))
            if folder is not None:
                # There is a folder, whatever is in it.
                self._found.setdefault(folder, {})
                self._with_more.add(folder)
                return False
        odd = None if kind is None or not parts else _odd_folder(parts)
        if kind is None or odd is None:
            return False
        self._add(odd, kind, stat)
        return True


def ledger_folder(path: str) -> LedgerFolder | None:
    """Return what the path of a folder tells; None for one that is no ledger's."""
    parts = path.split("/")
    parsed = parse_ledger_folder("/".join(parts[-_PARTS:]))
    return None if parsed is None else LedgerFolder("/".join(parts[:-1]), parsed.ledger_id, parsed.uuid)


def _odd_folder(parts: list[str]) -> LedgerFolder | None:
    """Return what the path of a folder tells that has a ledger's files in it, and is none of a ledger; None if it is nobody's.

    All that is below the folder of a topic is that topic's, whatever its name.
    """
    end, parsed = _end_of_topic(parts), parse_ledger_name(parts[-1])
    if end is not None and not (parsed and end == len(parts)):
        below = parts[end:]
        guesses = (nearly_a_ledger(name) for name in reversed(below))
        ledger_id = next((guess for guess in guesses if guess is not None), UNKNOWN)
        fault = "a ledger's files that are not in a folder named <ledger id>-<uuid>, as Pulsar writes it, in that of their topic"
        return LedgerFolder("/".join(parts[:end]), ledger_id, _NO_UUID, "/".join(below), fault)
    if parsed is None:
        return None
    fault = "the folder of a ledger, which is not in tenant/namespace/persistent/topic"
    return LedgerFolder("/".join(parts[:-1]), *parsed, fault=fault)


def _end_of_topic(parts: list[str]) -> int | None:
    """Return how many parts of a path are that of a topic's folder; None where it is not below one. Preferred is the parent."""
    ends = (at + 2 for at in range(2, len(parts) - 1) if parts[at] == _DOMAIN)
    return min(ends, key=lambda end: abs(len(parts) - 1 - end), default=None)
