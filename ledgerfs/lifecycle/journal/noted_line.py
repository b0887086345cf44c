"""A line of the trash journal as it was read: what changes it names the version of its node."""

from dataclasses import dataclass, replace

from ledgerfs.lifecycle.journal.trash_line import TrashLine, TrashState, build_trash_line, parse_trash_line
from ledgerfs.storage.zookeeper.node import DropNode, Node, Operation, SetNode


@dataclass(frozen=True, slots=True)
class NotedLine:
    """A line as it was read, and the version of its node."""

    line: TrashLine
    version: int

    def as_changed(self, state: TrashState) -> tuple[Operation, "NotedLine"]:
        """Return the change that brings the line into a state, and the line as it is then."""
        changed = replace(self.line, state=state)
        return SetNode(changed.path, build_trash_line(changed), self.version), NotedLine(changed, self.version + 1)

    def as_dropped(self) -> Operation:
        """Return the change that removes the line."""
        return DropNode(self.line.path, self.version)


def parse_noted_line(node: Node) -> NotedLine:
    """Parse the node of a line; raises `CorruptMetadataError` as `parse_trash_line`.

    It lies there since its node was made: whoever wrote it may have had a clock that was behind, and whoever reads it has not.
    """
    line = parse_trash_line(node.data, key=node.path)
    late_ms = max(0, node.created_ms - line.marked_ms)
    marked_ms, due_ms = line.marked_ms + late_ms, line.due_ms + late_ms
    return NotedLine(replace(line, marked_ms=marked_ms, due_ms=due_ms, changed_ms=node.changed_ms), node.version)
