"""How soon, how often and until when a failed request is sent again: on a clock of the test's own."""

import asyncio
import errno
import time
from typing import Any

import pytest

from ledgerfs.errors import AccessDeniedError, StaleObjectError, StoreError, StoreTimeoutError, WrongBodyError
from ledgerfs.storage.retries import Tries, is_transient, retry, retry_async, store_timeout
from tests.support.each import for_each


@pytest.fixture(autouse=True)
def _default_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEDGERFS_STORE_TIMEOUT")


class Clock:
    """Time that passes only in sleeps, and in requests that take some."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)


def answered(status: int, code: str, headers: dict[str, str] | None = None) -> OSError:
    """The error that s3fs makes of an answer: the one of botocore is its cause."""
    original = RuntimeError(code)
    response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers or {}}}
    original.response = response  # type: ignore[attr-defined]
    error = OSError(errno.EIO, code)
    error.__cause__ = original
    return error


def failing(error: Exception, tries: Tries, clock: Clock, seconds: float = 0.0) -> int:
    """Fail until that is the end; return the number of tries."""
    count = 0

    def attempt() -> None:
        nonlocal count
        count += 1
        clock.now += seconds
        raise error

    with pytest.raises(type(error)):
        retry(attempt, tries, lambda *_: None, clock.sleep)
    return count


def test_a_request_that_fails_at_once_is_sent_again_at_growing_distances_within_the_bound() -> None:
    clock = Clock()
    count = failing(ConnectionResetError(), Tries(clock=clock), clock)
    assert count > 10
    assert clock.now - 1000 <= 60
    assert clock.now - 1000 > 38  # not given up before
    assert all(0.5 * 0.1 * 2**i <= delay <= 0.1 * 2**i for i, delay in enumerate(clock.slept[:6]))
    assert max(clock.slept) <= 5
    assert len(set(clock.slept)) == len(clock.slept)  # jitter


@for_each("bound", ["1", "2", "60"])
def test_five_quick_tries_fit_in_any_bound(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGERFS_STORE_TIMEOUT", bound)
    clock = Clock()
    tries = Tries(clock=clock)
    assert failing(ConnectionResetError(), tries, clock) >= 4 + (bound != "1")


def test_a_hang_leaves_time_for_other_tries_and_the_last_ends_within_the_bound() -> None:
    clock = Clock()
    tries = Tries(clock=clock)
    count = 0

    def attempt() -> None:
        nonlocal count
        count += 1
        assert tries.patience == 15  # never cut short
        clock.now += tries.patience
        raise TimeoutError

    with pytest.raises(TimeoutError):
        retry(attempt, tries, lambda *_: None, clock.sleep)
    assert count >= 3
    assert 40 < clock.now - 1000 <= 60


def test_a_large_read_has_more_time() -> None:
    clock = Clock()
    assert Tries(8 << 20, clock=clock).rest == 60 + 32
    assert Tries(8 << 20, clock=clock).patience == 15


def test_a_store_that_never_answered_is_given_up_sooner() -> None:
    clock = Clock()
    assert failing(ConnectionRefusedError(), Tries(is_first_contact=True, clock=clock), clock) >= 5
    assert clock.now - 1000 <= 5
    clock = Clock()
    failing(ConnectionRefusedError(), Tries(clock=clock), clock)
    assert clock.now - 1000 > 38
    clock = Clock()
    failing(answered(503, "SlowDown"), Tries(is_first_contact=True, clock=clock), clock)
    assert clock.now - 1000 > 38


def test_what_the_store_asks_for_is_waited_within_reason() -> None:
    def first_delay(value: str) -> float | None:
        return Tries(clock=Clock()).delay_after(answered(503, "SlowDown", {"retry-after": value}))

    assert first_delay("7") == 7
    assert first_delay("3600") == 15
    for ignored in ("Wed, 21 Oct 2065 07:28:00 GMT", "-5", ""):
        delay = first_delay(ignored)
        assert delay is not None
        assert delay <= 0.1


@for_each(
    ("error", "expected"),
    [
        *[(answered(status, "x"), True) for status in (429, 500, 502, 503, 504)],
        *[(answered(400, code), True) for code in ("SlowDown", "RequestTimeout", "Throttling")],
        *[(answered(status, "x"), False) for status in (400, 401, 412, 416, 501)],
        (PermissionError("403"), False),
        (FileNotFoundError("404"), False),
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (StoreTimeoutError("x"), True),
        (WrongBodyError("x"), True),
        (StoreError("x"), False),
        (StaleObjectError("x"), False),
        (AccessDeniedError("x"), False),
        (TypeError("x"), False),
    ],
)
def test_only_what_may_pass_is_tried_again(error: Exception, expected: bool) -> None:
    assert is_transient(error) is expected
    assert (failing(error, Tries(clock=(clock := Clock())), clock) > 1) is expected


def test_retries_are_reported_and_the_result_returned_also_in_a_loop() -> None:
    reported: list[Any] = []
    clock = Clock()
    tries = Tries(clock=clock)
    outcomes = [ConnectionResetError("1"), ConnectionResetError("2"), b"bytes"]

    async def attempt() -> bytes:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def on_retry(error: Exception, number: int, seconds: float, delay: float) -> None:
        reported.append((str(error), number))

    assert asyncio.run(retry_async(attempt, tries, on_retry, clock.sleep_async)) == b"bytes"
    assert reported == [("1", 1), ("2", 2)]
    assert tries.number == 3


@for_each(("text", "seconds"), [("2.5", 2.5), ("", 60), ("soon", 60), ("-1", 60), ("0", 60), ("inf", 60)])
def test_the_bound_comes_from_the_environment(text: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGERFS_STORE_TIMEOUT", text)
    assert store_timeout() == seconds


def test_a_clock_that_is_set_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    tries = Tries()
    monkeypatch.setattr(time, "time", lambda: 1e12)
    assert tries.rest > 59
