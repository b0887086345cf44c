"""Find the topic names nearest to a misspelt one."""

from collections.abc import Collection, Sequence
from difflib import SequenceMatcher
from heapq import nsmallest

import numpy as np
import numpy.typing as npt

from ledgerfs.formats.topic_names import split_partition

_MOST_NAMED = 3
_LONGEST = 400
"""Longer names are not compared: Pulsar has none that long, but a damaged object may."""
_LOOKED_AT = 64
"""Number of names that are compared letter by letter: those with the most similar letters, in any order."""
_STEP = 1 << 16
_KINDS = 32
"""Kinds of letters: the lower five bits of a byte, so that ``A`` counts as ``a``."""
_DIFFERENCE = 0.4
"""Largest share of the letters of both local names that the other one may lack, as for `difflib.get_close_matches`."""

_Counts = npt.NDArray[np.int64]


def nearest_names(wanted: str, names: Collection[str | None]) -> list[str]:
    """Return at most three managed-ledger names near ``wanted``, nearest first: similar ones, or equal ones in another namespace.

    Partitions count as their topic. A hundred thousand names take some tenths of a second.
    """
    if len(wanted) > _LONGEST:
        return []
    wanted, number = split_partition(wanted)
    local, ending = _local(wanted), f"/{_local(wanted)}"
    known = dict.fromkeys(split_partition(name)[0] for name in names if name is not None and len(name) <= _LONGEST)
    elsewhere = nsmallest(_LOOKED_AT, (name for name in known if name.endswith(ending)))
    matcher = SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(wanted.lower())
    ranked = []
    for name in {*elsewhere, *_of_like_letters(wanted, list(known))}:
        matcher.set_seq1(name.lower())
        shared = sum(block.size for block in matcher.get_matching_blocks())
        different = len(name) + len(wanted) - 2 * shared
        is_elsewhere = name.endswith(ending)
        if is_elsewhere or different <= _DIFFERENCE * (len(local) + len(_local(name))):
            ranked.append((not is_elsewhere, different, name))
    found = [name for _, _, name in sorted(ranked)[:_MOST_NAMED]]
    return [name if (partition := f"{name}-partition-{number}") not in names else partition for name in found]


def _local(name: str) -> str:
    return name.rpartition("/")[2]


def _of_like_letters(wanted: str, names: Sequence[str]) -> list[str]:
    """Return the names whose letter counts differ least from those of ``wanted``, a lower bound of the difference of the names."""
    counted = _letters([wanted])
    parts = (names[start : start + _STEP] for start in range(0, len(names), _STEP))
    different = [np.abs(_letters(part) - counted).sum(axis=1) for part in parts]
    if not different:
        return []
    order = np.argsort(np.concatenate(different), kind="stable")
    return [names[place] for place in order[:_LOOKED_AT].tolist()]


def _letters(names: Sequence[str]) -> _Counts:
    """Return a row for each name with its count of each kind of letter."""
    texts = [name.encode("utf-8", "surrogatepass") for name in names]
    rows = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    kinds = np.frombuffer(b"".join(texts), np.uint8) % _KINDS
    counts: _Counts = np.bincount(rows * _KINDS + kinds, minlength=len(texts) * _KINDS)
    return counts.reshape(len(texts), _KINDS)
