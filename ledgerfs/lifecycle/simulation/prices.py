"""What storage and requests cost, by prices that whoever simulates gives: none is known here."""

from collections.abc import Iterable
from dataclasses import dataclass, fields

from ledgerfs.errors import InvalidOptionError

GIB = 1 << 30
MONTH_S = 730 * 3600.0
"""A month of bills: a twelfth of 365 days."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices in any one currency; 0 unless they are told.

    Attributes
    ----------
    hot, cold
        Of a GiB on the disks of bookies, each copy counted, and of a GiB in the store, for a month of 730 hours.
    put
        Of 1,000 requests that write to the store.

    """

    hot: float = 0.0
    cold: float = 0.0
    put: float = 0.0

    @property
    def are_told(self) -> bool:
        """Whether any price is not 0."""
        return bool(self.hot or self.cold or self.put)


def parse_prices(texts: Iterable[str]) -> Prices:
    """Parse ``name=number`` each; raises `InvalidOptionError`."""
    told: dict[str, float] = {}
    names = [one.name for one in fields(Prices)]
    pairs = [text.partition("=")[::2] for text in texts]
    for name, number in pairs:
        if not number:
            raise InvalidOptionError(f"{name!r} has no value: name=number, such as cold=0.023", key="--price")
    for name, number in pairs:
        if name not in names:
            raise InvalidOptionError(
                f"no price is called {name!r}: hot, cold or put, such as cold=0.023", key="--price"
            )
        try:
            told[name] = float(number)
        except ValueError:
            raise InvalidOptionError(f"{number!r} is no number", key=f"--price {name}") from None
        if not 0 <= told[name] < 1e12:
            raise InvalidOptionError(f"{number!r} is no price", key=f"--price {name}")
    return Prices(**told)
