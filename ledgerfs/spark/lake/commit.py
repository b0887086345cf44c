"""How an export becomes visible: tasks write beside the lake, then the driver writes its intent, and then carries it out.

The intent is one object. Once it is there, the next export finishes the work if this one is killed; before that, the next export removes
the tasks' files. ``_SUCCESS`` is there while the files are complete.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TypeVar

from ledgerfs.errors import InvalidOptionError
from ledgerfs.spark.lake.lock import FOLDER
from ledgerfs.spark.lake.state import LakeState
from ledgerfs.spark.lake.target import Lake, missing
from ledgerfs.storage.ordered_map import ordered_map

STATE = f"{FOLDER}/state.json"
SUCCESS = "_SUCCESS"

_INTENT = "commit.json"
_NEXT_STATE = "state.json"
_AT_A_TIME = 16

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Commit:
    """The intent: where each staged file goes, its bytes, and which files of the lake are removed."""

    moves: tuple[tuple[str, str, int], ...]
    removed: tuple[str, ...]


def staging(job: str) -> str:
    """Return the folder of everything that belongs to one export until it is done."""
    return f"{FOLDER}/{job}"


def read_state(lake: Lake) -> tuple[LakeState | None, bytes | None]:
    """Return the state of a lake and its text, which identifies it; None for both if there is no export."""
    text = lake.read(STATE)
    return (None if text is None else LakeState.parse(text, lake.path(STATE))), text


def commit(
    lake: Lake, job: str, moves: Iterable[tuple[str, str, int]], removed: Iterable[str], state: LakeState
) -> None:
    """Move the staged files into the lake. Raises before anything has changed there, or leaves the rest to the next export."""
    lake.write(f"{staging(job)}/{_NEXT_STATE}", state.to_json())
    shall_be = Commit(tuple(moves), tuple(removed))
    lake.write(f"{staging(job)}/{_INTENT}", json.dumps(asdict(shall_be)).encode())
    _do(lake, job, shall_be)


def recover(lake: Lake) -> None:
    """Finish the commit of a killed export, and remove the staged files of others. For the holder of the lock.

    Raises
    ------
    ObjectNotFoundError
        A staged file of the commit is gone.

    """
    for job in lake.folders(FOLDER):
        intent = lake.read(f"{staging(job)}/{_INTENT}")
        if intent is None:
            lake.remove_folder(staging(job))
        else:
            _do(lake, job, _parsed(intent, lake.path(staging(job))))


def _do(lake: Lake, job: str, shall_be: Commit) -> None:
    """Carry out an intent, or the rest of it; each step may have been done before."""
    _remove_success(lake)
    _move(lake, job, shall_be.moves)
    _remove(lake, shall_be.removed)
    text = lake.read(f"{staging(job)}/{_NEXT_STATE}")
    if text is None:
        raise missing(lake, f"{staging(job)}/{_NEXT_STATE}")
    _write_state(lake, text)
    _write_success(lake)
    _clear(lake, job)


def _remove_success(lake: Lake) -> None:
    lake.remove(SUCCESS)


def _move(lake: Lake, job: str, moves: tuple[tuple[str, str, int], ...]) -> None:
    staged = lake.files(staging(job))
    left = [one for one in moves if one[0] in staged]
    if len(left) < len(moves):
        there = lake.files()
        for source, name, size in moves:
            if source not in staged and there.get(name) != size:
                raise missing(lake, name)
    _at_once(lambda one: lake.move(one[0], one[1]), left)


def _remove(lake: Lake, removed: tuple[str, ...]) -> None:
    _at_once(lake.remove, removed)


def _write_state(lake: Lake, text: bytes) -> None:
    lake.write(STATE, text)


def _write_success(lake: Lake) -> None:
    lake.write(SUCCESS, b"")


def _clear(lake: Lake, job: str) -> None:
    # The intent is removed first: without its files nobody could carry it out.
    lake.remove(f"{staging(job)}/{_INTENT}")
    lake.remove_folder(staging(job))


def _at_once(work: Callable[[Value], None], values: Iterable[Value]) -> None:
    """Call ``work`` for many values, some at a time; raises the first error."""
    for _ in ordered_map(work, values, _AT_A_TIME, "ledgerfs-lake"):
        pass


def _parsed(text: bytes, key: str) -> Commit:
    try:
        found = json.loads(text)
        return Commit(tuple((str(a), str(b), int(size)) for a, b, size in found["moves"]), tuple(found["removed"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidOptionError("not what an export writes; remove it if you know why it is there", key=key) from error
