"""Position of a value in JSON documents, for reasons."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Names of fields, and parts of a field that have no name."""

    path: tuple[str, ...] = ()
    inner: str = ""

    def field(self, name: str) -> "Place":
        """Return the place of a field."""
        return Place((*self.path, name)) if not self.inner else Place((*self.path, f"*.{name}"))

    def part(self, name: str) -> "Place":
        """Return the place of a part without a name."""
        return Place(self.path, name)

    @property
    def described(self) -> str:
        """The place in words that follow the name of a message: "it", or a part of it."""
        whole = f"its field {'.'.join(self.path)!r}" if self.path else "it"
        return f"{self.inner} of {whole}" if self.inner else whole

    def is_no(self, what: str) -> str:
        """Return a reason."""
        return f"{self.described} is {what}"
