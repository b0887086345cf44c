"""Operations that are met, or killed, at one point of their requests."""

from collections.abc import Callable


class Killed(BaseException):
    """An end that nothing catches."""


class At:
    """Witness that acts at one point of an operation."""

    def __init__(self, number: int, act: Callable[[], None]) -> None:
        self.left, self.act = number, act

    def met(self) -> None:
        self.left -= 1
        if self.left == -1:
            self.act()

    def refusal_of(self, *_: object, **__: object) -> None: ...

    def published(self, *_: object) -> None: ...

    def unpublished(self, *_: object) -> None: ...

    def data_deleted(self, *_: object) -> None: ...


def kill() -> None:
    raise Killed
