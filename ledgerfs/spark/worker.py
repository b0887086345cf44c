"""What a Python worker of Spark does once, before its first task of ours."""

import gc
from functools import cache


@cache
def spare_imports() -> None:
    """Spare what was imported from the collection of garbage that Spark's daemon asks for after every task (16 to 58 ms each)."""
    gc.freeze()
