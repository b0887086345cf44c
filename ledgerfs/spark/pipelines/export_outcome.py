"""The outcome of an export: the units for the lake's state, the place of each staged file, and the report to the user."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ledgerfs.bucket.partitions import Run
from ledgerfs.export.folder import Ahead, Unseen
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.ledgers.missing_ledgers import MissingLedger
from ledgerfs.messages.decode.chunks import Incomplete
from ledgerfs.messages.decode.entries import Skipped
from ledgerfs.messages.decode.undecodable import Undecodable, counts_of
from ledgerfs.spark.lake.state import LakeFile, LedgerIds, Unit
from ledgerfs.spark.pipelines.export_request import ToDo
from ledgerfs.spark.pipelines.export_task import RunResult
from ledgerfs.tables.table_files import TABLE_KINDS

_MOST_NAMED = 20


@dataclass(slots=True)
class TopicExport:
    """What an export did for one topic.

    Attributes
    ----------
    topic
        Its name.
    files, messages, size
        Files that were written now, and messages and bytes in them.
    kept
        Files of earlier exports that are still valid.
    skipped, incomplete
        Damaged entries left out now with ``on_corrupt="skip"``, and chunked messages of which chunks are missing.
    skipped_before
        Damaged entries left out of the kept files.
    undecodable, undecodable_before, unnamed_before
        Values of the files written now that could not be decoded, of each scan by version and reason; how many errors of them are in
        the kept files, and how many values that no schema is named for.
    missing
        Missing ledgers, which ``on_corrupt="skip"`` leaves out.
    held
        Ledgers whose files are kept although they should be read again, since ledgers that they depend on are not in the bucket any more.
    outdated
        Those of their files whose values other schemas may have given than the bucket has now.
    waiting
        Ledgers of held files that may lack rows: those of transactions that had no outcome yet, or of chunked messages that had no end.
    unseen, grown
        Ledgers of a living cluster that were still written when they were exported up to these entries: of the one kind they are gone, of
        the other kind they have grown, and their files are held.
    ahead
        Ledgers of a living cluster of which more was exported before than is listed now; their files are kept.

    """

    topic: str
    files: int = 0
    messages: int = 0
    size: int = 0
    kept: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    incomplete: list[Incomplete] = field(default_factory=list)
    skipped_before: int = 0
    undecodable: list[Undecodable] = field(default_factory=list)
    undecodable_before: int = 0
    unnamed_before: int = 0
    missing: list[MissingLedger] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    outdated: list[str] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    unseen: dict[int, int] = field(default_factory=dict)
    grown: dict[int, int] = field(default_factory=dict)
    ahead: dict[int, Ahead] = field(default_factory=dict)

    @property
    def behind_texts(self) -> list[str]:
        """What to tell the user of ledgers that are listed shorter than they were exported, and will be as long again."""
        return [f"{self.topic}: {one}" for _, one in sorted(self.ahead.items()) if not one.is_closed]

    @property
    def lacking_texts(self) -> list[str]:
        """What to tell the user of messages that are not in the lake, or may not be, or only there, not in the topic."""
        gone = [str(Unseen(ledger, last, was_open=True)) for ledger, last in sorted(self.unseen.items())]
        grown = [
            f"ledger {ledger} has grown since it was exported up to entry {last}, but its files have rows from ledgers that are gone, "
            "and stay as they are: what came behind that is not in the files; export it into another folder"
            for ledger, last in sorted(self.grown.items())
        ]
        ahead = [str(one) for _, one in sorted(self.ahead.items()) if one.is_closed]
        waiting = [
            f"the files of ledger {ledger} may lack rows of transactions that had no outcome yet, or of chunked messages that had no end; "
            "they have rows of ledgers that are gone, and stay as they are: export into a new folder"
            for ledger in sorted(set(self.waiting))
        ]
        return [f"{self.topic}: {text}" for text in (*gone, *grown, *ahead, *waiting)]

    @property
    def outdated_text(self) -> str:
        """What to tell the user of outdated files; empty if there are none."""
        if not self.outdated:
            return ""
        shown = ", ".join(self.outdated[:_MOST_NAMED]) + (", …" if len(self.outdated) > _MOST_NAMED else "")
        return (
            f"{self.topic}: the values in {len(self.outdated):,} files are by other schemas than the bucket has now, and these cannot be "
            f"made again, since they have rows of ledgers that are not in the bucket any more: {shown}"
        )


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that an export wrote; ``path`` is below the lake."""

    topic: str
    path: str
    messages: int
    bytes: int
    first_ledger: int
    last_ledger: int


@dataclass(slots=True)
class ExportOutcome:
    """What the tasks of an export made.

    Attributes
    ----------
    moves
        Where each staged file goes, and its bytes.
    units
        For the state.
    files, topics
        For the user.

    """

    moves: list[tuple[str, str, int]] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    files: list[WrittenFile] = field(default_factory=list)
    topics: dict[str, TopicExport] = field(default_factory=dict)

    @classmethod
    def of(cls, job: str, kind: str, todo: ToDo, results: Iterable[RunResult]) -> "ExportOutcome":
        """Sum up the tasks' results, and the units of earlier exports that stay."""
        made = cls()
        for lost in todo.missing:
            name = lost.topic
            made.topics.setdefault(name, TopicExport(name)).missing.append(lost)
        ordered = sorted(results, key=lambda one: (one.part, one.run))
        runs: tuple[int, tuple[Run, ...]] = (-1, ())
        for result in ordered:
            if runs[0] != result.part:
                runs = (result.part, todo.parts[result.part].runs)
            made._add(
                result, runs[1][result.run], f"{job}-{result.part:05d}-{result.run}", TABLE_KINDS[kind], todo.ledgers
            )
        for unit in todo.work.kept:
            topic = made._topic(unit.managed_ledger)
            topic.kept += len(unit.files)
            topic.skipped_before += unit.skipped
            topic.undecodable_before += unit.undecodable
            topic.unnamed_before += unit.unnamed
        for unit in todo.work.held:
            made._topic(unit.managed_ledger).held.extend(unit.ledgers)
        made._add_growing(todo)
        for unit in todo.work.waiting:
            made._topic(unit.managed_ledger).waiting.extend(todo.ledgers.present(unit))
        for unit in todo.work.outdated:
            made._topic(unit.managed_ledger).outdated.extend(file.path for file in unit.files)
        return made

    @property
    def by_topic(self) -> list[TopicExport]:
        """The topics, sorted by name."""
        return sorted(self.topics.values(), key=lambda one: one.topic)

    def _topic(self, managed_ledger: str | None) -> TopicExport:
        name = topic_of(managed_ledger)
        return self.topics.setdefault(name, TopicExport(name))

    def _add_growing(self, todo: ToDo) -> None:
        """Add what is to be told of units with a ledger that was still written."""
        for unit in todo.work.unseen:
            self._topic(unit.managed_ledger).unseen[unit.ledgers[-1]] = unit.open_until
        for unit in todo.work.grown:
            self._topic(unit.managed_ledger).grown[unit.ledgers[-1]] = unit.open_until
        for unit in todo.work.ahead:
            ref = todo.ledgers.last_of(unit)
            if ref is not None:
                ahead = Ahead(ref.ledger_id, ref.last_entry, is_closed=not ref.is_open)
                self._topic(unit.managed_ledger).ahead[ref.ledger_id] = ahead

    def _add(self, result: RunResult, run: Run, name: str, suffix: str, ledgers: LedgerIds) -> None:
        refs = run.refs
        ids = tuple(ref.ledger_id for ref in refs)
        span = f"{ids[0]}" if len(ids) == 1 else f"{ids[0]}-{ids[-1]}"
        files = []
        topic = self._topic(run.managed_ledger)
        for number, file in enumerate(result.files):
            # The name has the ledgers, for people, and the export and its part, so that it is unique.
            path = "/".join(filter(None, (file.folder, f"{span}_{name}-{number}{suffix}")))
            self.moves.append((file.staged, path, file.size))
            files.append(LakeFile(path, file.messages, file.size))
            self.files.append(WrittenFile(topic.topic, path, file.messages, file.size, ids[0], ids[-1]))
            topic.files += 1
            topic.messages += file.messages
            topic.size += file.size
        topic.skipped.extend(result.skipped)
        topic.incomplete.extend(result.incomplete)
        topic.undecodable.extend(result.undecodable)
        skipped = sum(one.last_entry - one.first_entry + 1 for one in result.skipped)
        undecodable, unnamed = counts_of(result.undecodable)
        versions = tuple(map(ledgers.version, refs))
        basis = result.basis
        state = "" if basis.is_final else ledgers.topic(run.managed_ledger).of(basis)
        of_values = (undecodable, ledgers.schemas(run.managed_ledger), unnamed)
        open_until = refs[-1].last_entry if refs[-1].is_open else -1
        self.units.append(
            Unit(run.managed_ledger, ids, versions, basis, state, skipped, tuple(files), *of_values, open_until)
        )
