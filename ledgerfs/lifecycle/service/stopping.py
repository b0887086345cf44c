"""Whether a service is to end."""


class Stopping:
    """Is told once, from any thread, or by the handler of a signal.

    Without a lock, as `threading.Event` has one: a handler interrupts the main thread anywhere, also where that holds it, and would wait
    for ever.
    """

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Have all that asks begin nothing more."""
        self._is_set = True

    def is_set(self) -> bool:
        """Whether nothing is to be begun any more."""
        return self._is_set
