"""Where a value is in JSON documents, as reasons name it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Names of fields, and what is inside one without a name."""

    path: tuple[str, ...] = ()
    inner: str = ""

    def field(self, name: str) -> "Place":
        """Return the place of a field."""
        return Place((*self.path, name)) if not self.inner else Place((*self.path, f"*.{name}"))

    def part(self, name: str) -> "Place":
        """Return the place of what has no name."""
        return Place(self.path, name)

    @property
    def described(self) -> str:
        """The place, as it goes on after the name of a message: "it", or something of it."""
        whole = f"its field {'.'.join(self.path)!r}" if self.path else "it"
        return f"{self.inner} of {whole}" if self.inner else whole

    def is_no(self, what: str) -> str:
        """Return a reason."""
        return f"{self.described} is {what}"
