"""Recognize ledgers' folders in a listing, and collect their objects.

The offloader's base may be a folder of the bucket, so the end of the path identifies a ledger's folder:
``tenant/namespace/persistent/<topic>/<ledger id>-<uuid>``. Legacy names contain a cluster, so the path does not show where the name of the
managed ledger begins; the ledger's metadata does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ledgerfs.catalog.missing_ledgers import UNKNOWN
from ledgerfs.formats.mapfile.names import KINDS, FileKind, nearly_a_ledger, parse_ledger_folder, parse_ledger_name
from ledgerfs.storage.objects import ObjectStat

_PARTS = 5
"""Parts of the path of a ledger's folder, from the tenant on."""
_NAME_PARTS = (4, 5)
_DOMAIN = "persistent"
_NO_UUID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class LedgerFolder:
    """A ledger's folder, parsed from its path.

    Attributes
    ----------
    path
        Path of the topic's folder: the base in the bucket, and the name of the managed ledger.
    ledger_id
        The id by the folder's name; a guess if Pulsar would write another name, and -1 if there is nothing to guess from.
    name
        Path of the ledger's folder below that of the topic, if Pulsar would write another name: then the uuid is unknown. Empty if the
        ledger's files are in the topic's folder itself.
    fault
        Why name or path cannot be that of a ledger, whatever the folder contains; empty if they can.

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
        """Whether the path contains the topic."""
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
        """Return where in the bucket the managed ledger's name begins, as the path before it; None if this folder is not of that one."""
        place = self.path.removesuffix(managed_ledger)
        is_its = len(place) < len(self.path) and len(managed_ledger.split("/")) in _NAME_PARTS
        return place if is_its and (not place or place.endswith("/")) else None

    def name_at(self, place: str) -> str | None:
        """Return the managed ledger of this folder if names begin at a place; None if none can begin there."""
        name = self.path.removeprefix(place)
        is_name = self.path.startswith(place) and len(name.split("/")) in _NAME_PARTS
        return name if is_name else None

    def guessed_place(self, known: Iterable[str]) -> str:
        """Return where in the bucket its name probably begins: where those of known ledgers do, else four parts before its end."""
        likely = [place for place in known if self.name_at(place) is not None]
        return max(likely, key=len, default="/".join(self.path.split("/")[:-4]) + "/").removeprefix("/")

    @property
    def exact_place(self) -> str:
        """The folder's own path, with a mark (`ledgerfs.layouts.mapfile.rows.key_of_missing`), if place and name do not make it."""
        return f"{self.key}//"


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """A ledger's folder and its listed objects; ``itself`` is that of the folder; ``has_more``: whether other files in it have bytes."""

    folder: LedgerFolder
    data: ObjectStat | None = None
    index: ObjectStat | None = None
    itself: ObjectStat | None = None
    has_more: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it contains no bytes, as far as the store allows reading it."""
        stats = (stat for stat in (self.data, self.index, self.itself) if stat is not None)
        return not (self.has_more or any(stat.size or stat.refused for stat in stats))


@dataclass(slots=True)
class NameStarts:
    """Where in the bucket the names of managed ledgers begin, by the metadata of ledgers; a guess for other folders."""

    _by_path: dict[str, str] = field(default_factory=dict)
    _places: set[str] = field(default_factory=set)

    def learn(self, place: str, managed_ledger: str) -> None:
        """Add the place of a name in metadata; if two of one folder contradict each other, the shorter one counts."""
        path = f"{place}{managed_ledger}"
        self._by_path[path] = min(place, self._by_path.get(path, place))
        self._places.add(place)

    def guess(self, folder: LedgerFolder) -> str:
        """Return where the name of a folder begins: as for another ledger in the same topic's folder, else a guess."""
        place = self._by_path.get(folder.path)
        return folder.guessed_place(self._places) if place is None else place


class MapFileListing:
    """The objects of a listing that are in ledgers' folders, added page by page.

    Attributes
    ----------
    at_top
        Files of a ledger at the top of the opened folder, outside any ledger's folder.

    """

    __slots__ = ("_found", "_with_more", "at_top")

    def __init__(self) -> None:
        self._found: dict[LedgerFolder, dict[FileKind, ObjectStat]] = {}
        self._with_more: set[LedgerFolder] = set()
        self.at_top: set[str] = set()

    def take(self, page: Sequence[ObjectStat]) -> list[ObjectStat]:
        """Take data, indexes, Hadoop's checksums, and ledgers' folders that are empty or not readable; return the other objects."""
        return [stat for stat in page if not self._take(stat)]

    def may_be_behind(self, key: str) -> bool:
        """Whether a link at this key may lead to ledgers: in place of a topic's folder, below one, or next to folders on the way."""
        above, _, name = key.rpartition("/")
        parts = above.split("/")
        if _DOMAIN in parts[2:] or (len(parts) >= 2 and name == _DOMAIN):
            return True
        return any(not above or f"{folder.path}/".startswith(f"{above}/") for folder in self._found)

    def folders(self) -> list[FolderFiles]:
        """Return the folders so far."""
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
        """Take an object that resembles a ledger's, with a name that Pulsar does not write, so that it is reported."""
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
                # The folder exists, with other files.
                self._found.setdefault(folder, {})
                self._with_more.add(folder)
                return False
        odd = None if kind is None or not parts else _odd_folder(parts)
        if kind is None or odd is None:
            return False
        self._add(odd, kind, stat)
        return True


def ledger_folder(path: str) -> LedgerFolder | None:
    """Parse the path of a ledger's folder; None if it is not one."""
    parts = path.split("/")
    parsed = parse_ledger_folder("/".join(parts[-_PARTS:]))
    return None if parsed is None else LedgerFolder("/".join(parts[:-1]), parsed.ledger_id, parsed.uuid)


def _odd_folder(parts: list[str]) -> LedgerFolder | None:
    """Parse the path of a folder that has a ledger's files but not a ledger's path; None if it is of no topic.

    All that is below the folder of a topic belongs to that topic, whatever its name.
    """
    end, parsed = _end_of_topic(parts), parse_ledger_name(parts[-1])
    if end is not None and not (parsed and end == len(parts)):
        below = parts[end:]
        guesses = (nearly_a_ledger(name) for name in reversed(below))
        ledger_id = next((guess for guess in guesses if guess is not None), UNKNOWN)
        fault = "files of a ledger outside of <topic>/<ledger id>-<uuid>, where Pulsar writes them"
        return LedgerFolder("/".join(parts[:end]), ledger_id, _NO_UUID, "/".join(below), fault)
    if parsed is None:
        return None
    fault = "the folder of a ledger is not in tenant/namespace/persistent/topic"
    return LedgerFolder("/".join(parts[:-1]), *parsed, fault=fault)


def _end_of_topic(parts: list[str]) -> int | None:
    """Return how many parts of a path are the topic's folder; None if it is not below one. Prefers the parent."""
    ends = (at + 2 for at in range(2, len(parts) - 1) if parts[at] == _DOMAIN)
    return min(ends, key=lambda end: abs(len(parts) - 1 - end), default=None)
