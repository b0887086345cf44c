"""How much the model tries: few examples, the same in every run, or ``LEDGERFS_MODEL_EXAMPLES`` random ones."""

import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("LEDGERFS_MODEL_EXAMPLES", "0"))
"""How many random examples to run of each; 0 for few, which are the same in every run."""


def searching(examples: int, steps: int) -> settings:
    return settings(
        max_examples=EXAMPLES or examples,
        stateful_step_count=steps,
        derandomize=not EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
