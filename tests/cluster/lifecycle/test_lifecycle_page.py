"""The page about the lifecycle says what there is: its example is a policy file, and each key, refusal and kind has a line."""

import re
from pathlib import Path

from ledgerfs_cluster.lifecycle.planning.actions import ActionKind, Refusal
from ledgerfs_cluster.lifecycle.policy.policy_file import parse_policy_file
from ledgerfs_cluster.offload.journal import RecordKind
from tests.cluster.lifecycle.test_policy_file import WHOLE

PAGE = (Path(__file__).parents[3] / "docs" / "operating" / "lifecycle.md").read_text()


def test_the_example_is_a_policy_file() -> None:
    (example,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    found = parse_policy_file(example.encode(), Path("policy.toml"))
    assert [one.trim for one in found.topics] == [True, False]


def test_every_key_has_a_line() -> None:
    keys = {match[1] for match in re.finditer(r"^(\w+) = ", WHOLE, re.MULTILINE)} - {"cluster"}
    table = "\n".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    assert not [key for key in keys if not re.search(rf"[`.]{key}`", table)]


def test_every_word_of_a_plan_has_a_line() -> None:
    named = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("|")]
    words = [one.value for kind in (Refusal, ActionKind, RecordKind) for one in kind]
    assert [word for word in words if not any(f"`{word}`" in one for one in named)] == []
