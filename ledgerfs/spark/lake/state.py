"""The state of a lake: which ledgers, in which versions, are in which files.

A unit is read and replaced as a whole: some consecutive blocks of a topic. Units that share a ledger are read again together. The state is
one compact JSON text, some hundred bytes for each unit.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

import numpy as np

from ledgerfs.errors import InvalidOptionError
from ledgerfs.export.identity import what_differs
from ledgerfs.formats.array_types import Mask
from ledgerfs.formats.topic_names import split_partition
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.dialects_known import OF_BUCKETS, dialect_rows
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.row_dependencies import Basis, TopicState

_VERSION = 3
_VERSION_BYTES = 8


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of a lake: its path below it, messages, and bytes."""

    path: str
    messages: int
    size: int


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of a topic that was exported as a whole.

    Attributes
    ----------
    managed_ledger
        The topic's.
    ledgers, versions
        Ids, and versions of the objects that were read (`ledger_version`).
    basis, state
        Other ledgers that its messages depend on (`Scan.basis`), and their state then.
    skipped
        Damaged entries that were left out.
    files
        Empty if there are no messages.
    undecodable, unnamed
        Values that could not be decoded, and are null or left out, and those that no schema is named for, which are null.
    schemas
        What told the schemas that they were decoded by from others then (`LedgerIds`); empty for bytes.
    open_until
        The last entry of the last ledger if that was still written, and no export has seen it closed there since; -1 if not.

    """

    managed_ledger: str | None
    ledgers: tuple[int, ...]
    versions: tuple[str, ...]
    basis: Basis
    state: str
    skipped: int
    files: tuple[LakeFile, ...]
    undecodable: int = 0
    schemas: str = ""
    unnamed: int = 0
    open_until: int = -1


@dataclass(frozen=True, slots=True)
class LakeState:
    """A whole lake: the options that decide the contents of its files (JSON values), and its units."""

    contents: Mapping[str, Any]
    units: tuple[Unit, ...] = ()

    def to_json(self) -> bytes:
        """Return the text that `parse` reads."""
        names = list(dict.fromkeys(unit.managed_ledger for unit in self.units))
        numbers = {name: number for number, name in enumerate(names)}
        units = [
            [numbers[one.managed_ledger], one.ledgers, one.versions, _told(one.basis), one.state, one.skipped,
             [[file.path, file.messages, file.size] for file in one.files],
             one.undecodable, one.schemas, one.unnamed, one.open_until]
            for one in self.units
        ]  # fmt: skip
        state = {"version": _VERSION, "contents": self.contents, "topics": names, "units": units}
        return json.dumps(state, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, text: bytes, key: str) -> "LakeState":
        """Read what `to_json` wrote; raises `InvalidOptionError` for anything else."""
        try:
            found = json.loads(text)
            if found["version"] != _VERSION:
                raise InvalidOptionError(
                    f"a state of version {found['version']}, which this version cannot read", key=key
                )
            units = (_unit(found["topics"], *one) for one in found["units"])
            return cls(dict(found["contents"]), tuple(units))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise InvalidOptionError("not the state of an export; take another folder", key=key) from error

    def require_same(self, contents: Mapping[str, Any], key: str) -> None:
        """Raise `InvalidOptionError` if files with other contents would be added to these."""
        # Both went through JSON, which has no tuples.
        wanted = json.loads(json.dumps(contents))
        differing = what_differs(wanted, self.contents)
        if differing:
            raise InvalidOptionError(
                f"the folder holds an export {differing}; take another folder, or overwrite", key=key
            )


@dataclass(frozen=True, slots=True)
class Work:
    """What an export has to do.

    Attributes
    ----------
    wanted
        The rows of the catalog to read.
    kept, replaced
        Units that stay, and units that are read again.
    held
        Those of the units that stay which should be read again, but cannot, since one of their ledgers is not in the bucket any more.
    outdated
        Those of the held units with values of present ledgers that other schemas than those of now may have given.
    replaced_in_part
        Those of the held units of which a ledger was replaced by another one of its id: rows of that one would never be in the lake.
    waiting
        Those of the held units that waited for outcomes of transactions, or for parts of messages, in ledgers that are there now.
    unseen, grown
        Units with a ledger that was still written: of the one kind it is gone, so that nobody knows what came behind, of the other kind it
        has grown, and the unit is held.
    ahead
        Units that stay since they have more of a ledger that was, or is, still written than is listed now.
    ended
        Those of the units that stay whose ledger was still written, and was closed since without another entry: the state has to note it.

    """

    wanted: Mask
    kept: list[Unit] = field(default_factory=list)
    replaced: list[Unit] = field(default_factory=list)
    held: list[Unit] = field(default_factory=list)
    outdated: list[Unit] = field(default_factory=list)
    replaced_in_part: list[Unit] = field(default_factory=list)
    waiting: list[Unit] = field(default_factory=list)
    unseen: list[Unit] = field(default_factory=list)
    grown: list[Unit] = field(default_factory=list)
    ahead: list[Unit] = field(default_factory=list)
    ended: list[Unit] = field(default_factory=list)


class LedgerIds:
    """The wanted ledgers of a catalog by topic: their ids, and the row of each.

    ``schemas`` are texts for those that the values of a topic are decoded by, under the name that its partitions share: the last one is of
    all that there are now, the others of earlier ones by which ledgers of that time have the same values (`TopicSchemas.digests_alike`).
    ``is_asked_for`` tells whether ledgers of a name would be wanted if there were any.
    """

    def __init__(
        self,
        catalog: Catalog,
        wanted: Mask,
        schemas: Mapping[str, Sequence[str]] = MappingProxyType({}),
        is_asked_for: Callable[[str | None], bool] = lambda _: True,
    ) -> None:
        self._catalog = catalog
        self._schemas = schemas
        self._is_asked_for = is_asked_for
        self._rows: dict[str | None, dict[int, int]] = defaultdict(dict)
        rows = np.flatnonzero(wanted & (catalog.ledgers["copy"] == 0))
        names, ids = catalog.ledgers["name"][rows].tolist(), catalog.ledgers["ledger_id"][rows].tolist()
        for row, name, ledger in zip(rows.tolist(), names, ids, strict=True):
            # The catalog has them in ascending order.
            self._rows[catalog.names[name]][ledger] = row
        self._topics: dict[str | None, TopicState] = {}

    def topic(self, managed_ledger: str | None) -> TopicState:
        """Return the present ledgers of a topic."""
        found = self._topics.get(managed_ledger)
        if found is None:
            found = self._topics[managed_ledger] = TopicState(
                map(self._catalog.ref, self._rows[managed_ledger].values())
            )
        return found

    def row(self, managed_ledger: str | None, ledger: int) -> int | None:
        """Return the row of a ledger; None if it is not there, or not wanted."""
        return self._rows[managed_ledger].get(ledger) if managed_ledger in self._rows else None

    def can_remake(self, unit: Unit) -> bool:
        """Return whether all ledgers that a unit was read from are still there."""
        own = len(self.present(unit)) == len(unit.ledgers)
        return own and (not unit.basis.sources or self.topic(unit.managed_ledger).can_remake(unit.basis))

    def is_stale(self, unit: Unit) -> bool:
        """Return whether reading a unit again would give other messages, as far as its ledgers are there."""
        name = unit.managed_ledger
        if name not in self._rows:
            return False
        if not unit.basis.is_final and not self.topic(name).holds(unit.basis, unit.state):
            return True
        for ledger, version in zip(unit.ledgers, unit.versions, strict=True):
            row = self.row(name, ledger)
            if row is not None and self.version(self._catalog.ref(row)) != version:
                return True
        return False

    def replaced(self, unit: Unit) -> list[int]:
        """Return the ledgers of a unit that have other objects in a bucket now. In a cluster, an id always names the same ledger."""
        found = []
        for ledger, version in zip(unit.ledgers, unit.versions, strict=True):
            row = self.row(unit.managed_ledger, ledger)
            ref = None if row is None else self._catalog.ref(row)
            if (
                ref is not None
                and dialect_rows(ref.dialect).NAME in OF_BUCKETS
                and ledger_version(ref, unit.schemas) != version
            ):
                found.append(ledger)
        return found

    def is_waiting(self, unit: Unit) -> bool:
        """Return whether a unit has present ledgers, and waited for others, which have come or changed since."""
        is_open = unit.basis.is_open_ended and bool(self.present(unit))
        return is_open and not self.topic(unit.managed_ledger).holds(unit.basis, unit.state)

    def present(self, unit: Unit) -> list[int]:
        """Return the ledgers of a unit that are there."""
        return [ledger for ledger in unit.ledgers if self.row(unit.managed_ledger, ledger) is not None]

    def is_gone(self, unit: Unit) -> bool:
        """Return whether the last ledger of a unit is gone: from its topic, which is read or listed without an entry, or with it."""
        name, ledger = unit.managed_ledger, unit.ledgers[-1]
        is_read = name in self._rows or self._catalog.is_without_entries(name)
        is_told_of = is_read or (self._is_asked_for(name) and not self._catalog.has(name))
        return is_told_of and self.row(name, ledger) is None and not self._catalog.is_unclear(name, ledger)

    def is_ahead(self, unit: Unit) -> bool:
        """Return whether more was seen of the last ledger of a unit than is listed now.

        It has fewer entries than when it was still written, or it is written, though it was closed before: then the listing is behind.
        """
        ref = self.last_of(unit)
        return ref is not None and (ref.last_entry < unit.open_until or (ref.is_open and unit.open_until < 0))

    def last_of(self, unit: Unit) -> LedgerRef | None:
        """Return the last ledger of a unit as it is listed now; None if it is not there, or not wanted."""
        row = self.row(unit.managed_ledger, unit.ledgers[-1])
        return None if row is None else self._catalog.ref(row)

    def has_grown(self, unit: Unit) -> bool:
        """Return whether the last ledger of a unit was still written, and has more entries now."""
        row = self.row(unit.managed_ledger, unit.ledgers[-1])
        return row is not None and 0 <= unit.open_until < int(self._catalog.ledgers["last_entry"][row])

    def ended(self, unit: Unit) -> Unit:
        """Return a unit that stays, as one of a closed ledger if its last one was still written and was closed without another entry."""
        ref = None if unit.open_until < 0 else self.last_of(unit)
        if ref is None:
            return unit
        return unit if ref.is_open or ref.last_entry != unit.open_until else replace(unit, open_until=-1)

    def version(self, ref: LedgerRef) -> str:
        """Return a short text that changes with the ledger's objects, and with its topic's schemas."""
        return ledger_version(ref, self.schemas(ref.managed_ledger))

    def schemas(self, managed_ledger: str | None) -> str:
        """Return the text of a topic's schemas; empty if values are not decoded by any."""
        return self._alike(managed_ledger)[-1]

    def is_outdated(self, unit: Unit) -> bool:
        """Return whether a unit has values of present ledgers that other schemas than those of now may have given."""
        return bool(self.present(unit)) and unit.schemas not in self._alike(unit.managed_ledger)

    def _alike(self, managed_ledger: str | None) -> Sequence[str]:
        return self._schemas.get(split_partition(managed_ledger or "")[0], ("",))


def what_is_new(ledgers: LedgerIds, wanted: Mask, units: Iterable[Unit]) -> Work:
    """Return what is left to do of the wanted rows of a catalog if some units are done."""
    work = Work(wanted.copy())
    of_topic: dict[str | None, list[Unit]] = defaultdict(list)
    for unit in units:
        of_topic[unit.managed_ledger].append(unit)
    for done in of_topic.values():
        for group in _sharing(done):
            _judge(ledgers, group, work)
    return work


def ledger_version(ref: LedgerRef, schemas: str = "") -> str:
    """Return a short text that changes with the ledger's objects, and with the schemas that its values are decoded by."""
    return blake2b((ref.version + schemas).encode(), digest_size=_VERSION_BYTES).hexdigest()


def _judge(ledgers: LedgerIds, group: list[Unit], work: Work) -> None:
    """Decide about units that share ledgers: all of them stay, or none."""
    rows = [ledgers.row(unit.managed_ledger, ledger) for unit in group for ledger in unit.ledgers]
    there = [row for row in rows if row is not None]
    stale = list(filter(ledgers.is_stale, group))
    ahead = list(filter(ledgers.is_ahead, stale))
    is_stale = len(stale) > len(ahead)
    if is_stale and not ahead and all(map(ledgers.can_remake, group)):
        work.replaced.extend(group)
        return
    known = list(map(ledgers.ended, group))
    work.ended.extend(new for old, new in zip(group, known, strict=True) if new is not old)
    group = known
    work.kept.extend(group)
    work.wanted[there] = False
    work.unseen.extend(unit for unit in group if unit.open_until >= 0 and ledgers.is_gone(unit))
    work.grown.extend(filter(ledgers.has_grown, group))
    work.ahead.extend(ahead)
    if is_stale:
        work.held.extend(group)
        work.outdated.extend(filter(ledgers.is_outdated, group))
        work.replaced_in_part.extend(filter(ledgers.replaced, group))
        work.waiting.extend(filter(ledgers.is_waiting, group))


def _sharing(units: list[Unit]) -> Iterable[list[Unit]]:
    """Return units in groups: those whose ranges of ledgers overlap, directly or through others, are in one group."""
    groups: list[list[Unit]] = []
    ends = -1
    for unit in sorted(units, key=lambda one: (one.ledgers[0], one.ledgers[-1])):
        if groups and unit.ledgers[0] <= ends:
            groups[-1].append(unit)
        else:
            groups.append([unit])
        ends = max(ends, unit.ledgers[-1])
    return groups


def _told(basis: Basis) -> Any:  # noqa: ANN401  (JSON)
    """Return a basis for JSON; for nearly all units it is empty, and a digit is enough."""
    return 0 if basis == Basis() else [basis.first, basis.last, basis.sources]


def _unit(names: list[str | None], name: int, ledgers: list[int], versions: list[str], *rest: Any) -> Unit:  # noqa: ANN401
    basis, state, skipped, files, undecodable, schemas, unnamed, open_until = rest
    made = tuple(LakeFile(*file) for file in files)
    parsed = Basis.parse(basis) if basis else Basis()
    of_values = undecodable, schemas, unnamed, open_until
    return Unit(names[name], tuple(ledgers), tuple(versions), parsed, str(state), skipped, made, *of_values)
