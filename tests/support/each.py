"""Many cheap cases as one test: what takes less than a millisecond each needs no test of its own."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def for_each(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Call a test for each case, with the case as its arguments of these names; where one fails, the error names it.

    It is used as `pytest.mark.parametrize` is, also several times and with it, and by tests of `hypothesis`. Cases share the fixtures:
    a test whose cases change them loops by itself. An argument ``case_path`` is a folder of the case's own.

    Parameters
    ----------
    names : str or sequence of str
        The argument that each case is, or those of which it is a tuple.
    cases : iterable
        All of them; there has to be one.
    """
    several = [] if isinstance(names, str) else list(names)
    rows = [dict(zip(several, one, strict=True)) if several else {names: one} for one in cases]
    assert rows, f"no cases of {names}"

    def decorate(test: Callable[..., Any]) -> Callable[..., None]:
        signature = inspect.signature(test)
        has_path = "case_path" in signature.parameters
        given = [one for one in signature.parameters.values() if one.name not in {*rows[0], "case_path"}]
        if has_path:
            given.append(inspect.Parameter("tmp_path_factory", inspect.Parameter.POSITIONAL_OR_KEYWORD))

        @functools.wraps(test)
        def of_all(*arguments: Any, **fixtures: Any) -> None:
            __tracebackhide__ = True
            # hypothesis passes what it draws by position.
            others = (one.name for one in given if one.name not in fixtures)
            fixtures |= dict(zip(others, arguments, strict=False))
            folders = fixtures.pop("tmp_path_factory") if has_path else None
            for number, row in enumerate(rows):
                lent = {"case_path": folders.mktemp("case")} if folders is not None else {}
                try:
                    test(**fixtures, **row, **lent)
                except BaseException as error:
                    error.add_note(f"case {number} of {len(rows)}: {row!r:.1000}")
                    raise

        of_all.__signature__ = signature.replace(parameters=given)
        return of_all

    return decorate
