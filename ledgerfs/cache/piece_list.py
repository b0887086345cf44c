"""The pieces of one object, in order, so that those in a range are found by bisection."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from ledgerfs.cache.range_piece import Piece

_START = attrgetter("start")
_END = attrgetter("end")


@dataclass(frozen=True, slots=True)
class PieceList:
    """Pieces, none inside another: so their starts and their ends ascend.

    Attributes
    ----------
    pieces
        The pieces.
    looked
        When the folder was listed for them, seconds on the monotonic clock.

    """

    pieces: tuple[Piece, ...]
    looked: float

    def touching(self, start: int, end: int) -> tuple[Piece, ...]:
        """Return the pieces that share a byte with a range."""
        first = bisect_right(self.pieces, start, key=_END)
        return self.pieces[first : bisect_left(self.pieces, end, lo=first, key=_START)]

    def covered(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of a range that pieces have, one for each piece: ascending, not overlapping."""
        parts = []
        for piece in self.touching(start, end):
            # Pieces of several processes may overlap.
            start = max(start, piece.start)
            if start < min(end, piece.end):
                parts.append((start, min(end, piece.end)))
                start = piece.end
        return parts

    def missing(self, start: int, end: int) -> tuple[int, int]:
        """Return a range without the parts of its beginning and its end that pieces have; empty if they have all of it."""
        parts = self.covered(start, end)
        for first, last in parts:
            if first == start:
                start = last
        for first, last in reversed(parts):
            if last == end and first > start:
                end = first
        return start, end

    def inside(self, piece: Piece) -> tuple[Piece, ...]:
        """Return the pieces inside another one, or equal to it."""
        touching = self.touching(piece.start, piece.end)
        return tuple(other for other in touching if other.start >= piece.start and other.end <= piece.end)

    def with_piece(self, piece: Piece) -> "PieceList":
        """Return a list with this piece, and without those inside it."""
        if any(other.start <= piece.start and piece.end <= other.end for other in self.touching(*piece)):
            return self
        at = bisect_left(self.pieces, piece.start, key=_START)
        after = bisect_right(self.pieces, piece.end, key=_END)
        return PieceList((*self.pieces[:at], piece, *self.pieces[after:]), self.looked)

    def without(self, piece: Piece) -> "PieceList":
        """Return a list without this piece."""
        return PieceList(tuple(other for other in self.pieces if other != piece), self.looked)


def piece_list(pieces: Iterable[Piece], looked: float) -> PieceList:
    """Return a list of these pieces without those inside others."""
    kept: list[Piece] = []
    for piece in sorted(pieces, key=lambda piece: (piece.start, -piece.end)):
        if not kept or piece.end > kept[-1].end:
            kept.append(piece)
    return PieceList(tuple(kept), looked)
