"""Topics whose broker gave no answer: who may be asked in a pass, so that none waits for another one's broker, and no pass waits for all.

A request that is not answered takes half a minute. Brokers that are away have many topics, and others may answer all the while.
"""

from collections import deque

_MOST_NEW = 3
"""Topics that were answered before, or never asked, of which so many may be silent in a pass before it asks no more of them."""


class SilentTopics:
    """Remembers topics that gave no answer, and asks one of them in each pass, in turn. For one thread."""

    __slots__ = ("_new", "_topics", "_turn")

    def __init__(self) -> None:
        self._topics: deque[str] = deque()
        self._new = 0
        # The one that is to be asked, until it is.
        self._turn: str | None = None

    def begin_pass(self) -> None:
        """Begin another pass: the one that was asked the longest ago has its turn."""
        if self._turn is not None:
            # There was no reason any more to ask it.
            self._topics.remove(self._turn)
        self._turn = self._topics[0] if self._topics else None
        self._new = 0

    def may_be_asked(self, topic: str) -> bool:
        """Whether a topic's broker is asked in this pass."""
        return topic == self._turn if topic in self._topics else self._new < _MOST_NEW

    def note(self, topic: str) -> None:
        """Note that a topic gave no answer."""
        if topic in self._topics:
            self._topics.remove(topic)
            self._turn = None if topic == self._turn else self._turn
        else:
            self._new += 1
        self._topics.append(topic)

    def answered(self, topic: str) -> None:
        """Note that a topic gave an answer: where it had given none, all others are asked again, too."""
        if topic in self._topics:
            self._topics.clear()
            self._turn = None
