"""The pieces of one object, in order, so that those that a range touches are found at once."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from ledgerfs.cache.range_piece import Piece

_START = attrgetter("start")
_END = attrgetter("end")


@dataclass(frozen=True, slots=True)
class PieceList:
    """Pieces of which none lies in another: so they ascend in their starts and in their ends.

    Attributes
    ----------
    pieces
        The pieces.
    looked
        When the folder was looked at for them, seconds on the clock that never jumps.

    """

    pieces: tuple[Piece, ...]
    looked: float

    def touching(self, start: int, end: int) -> tuple[Piece, ...]:
        """Return the pieces that share a byte with a range."""
        first = bisect_right(self.pieces, start, key=_END)
        return self.pieces[first : bisect_left(self.pieces, end, lo=first, key=_START)]

    def covered(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of a range that are there, one a piece: ascending, none overlapping."""
        parts = []
        for piece in self.touching(start, end):
            # Pieces of several processes may overlap.
            start = max(start, piece.start)
            if start < min(end, piece.end):
                parts.append((start, min(end, piece.end)))
                start = piece.end
        return parts

    def missing(self, start: int, end: int) -> tuple[int, int]:
        """Return a range without what is there of its beginning and of its end; one that is all there becomes empty."""
        parts = self.covered(start, end)
        for first, last in parts:
            if first == start:
                start = last
        for first, last in reversed(parts):
            if last == end and first > start:
                end = first
        return start, end

    def inside(self, piece: Piece) -> tuple[Piece, ...]:
        """Return the pieces that lie in another, or are equal to it."""
        touching = self.touching(piece.start, piece.end)
        return tuple(other for other in touching if other.start >= piece.start and other.end <= piece.end)

    def with_piece(self, piece: Piece) -> "PieceList":
        """Return a list with this piece, and without those that lie in it."""
        if any(other.start <= piece.start and piece.end <= other.end for other in self.touching(*piece)):
            return self
        at = bisect_left(self.pieces, piece.start, key=_START)
        behind = bisect_right(self.pieces, piece.end, key=_END)
        return PieceList((*self.pieces[:at], piece, *self.pieces[behind:]), self.looked)

    def without(self, piece: Piece) -> "PieceList":
        """Return a list without this piece."""
        return PieceList(tuple(other for other in self.pieces if other != piece), self.looked)


def piece_list(pieces: Iterable[Piece], looked: float) -> PieceList:
    """Return a list of these pieces without those that lie in others."""
    kept: list[Piece] = []
    for piece in sorted(pieces, key=lambda piece: (piece.start, -piece.end)):
        if not kept or piece.end > kept[-1].end:
            kept.append(piece)
    return PieceList(tuple(kept), looked)
