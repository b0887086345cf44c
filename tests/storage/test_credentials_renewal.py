"""Requests whose credentials are refused are tried once more with those that the machine has by then."""

import asyncio

import pytest

from ledgerfs.storage.s3.credentials_renewal import CredentialsRenewal


class RefusedError(Exception):
    """An answer of a store, as botocore has it."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}}


class Machine:
    """Credentials that may be renewed, and a store that accepts the newest ones."""

    def __init__(self, *, has_newer: bool = True, code: str = "ExpiredToken") -> None:
        self.now = 0.0
        self.token = self.accepted = 0
        self.code = code
        self.has_newer = has_newer
        self.renewals = 0
        self.requests = 0
        self.renewal = CredentialsRenewal(self.renew, clock=lambda: self.now)

    async def renew(self) -> None:
        self.renewals += 1
        if self.has_newer:
            self.token = self.accepted

    def tried(self) -> int:
        return asyncio.run(self.renewal.tried(self.request))

    async def request(self) -> int:
        self.requests += 1
        if self.token != self.accepted:
            raise RefusedError(self.code)
        return self.token


def test_a_refused_request_is_tried_with_new_credentials() -> None:
    for code in ("ExpiredToken", "InvalidAccessKeyId", "SignatureDoesNotMatch", "403", "400"):
        machine = Machine(code=code)
        assert machine.tried() == 0
        machine.accepted = 1
        assert machine.tried() == 1
        assert (machine.renewals, machine.requests) == (1, 3)


def test_without_newer_credentials_the_refusal_is_final_and_not_asked_for_again_at_once() -> None:
    machine = Machine(has_newer=False)
    machine.accepted = 1
    for _ in range(3):
        with pytest.raises(RefusedError):
            machine.tried()
    assert (machine.renewals, machine.requests) == (1, 4)
    machine.now, machine.has_newer = 60.0, True
    assert machine.tried() == 1


def test_other_errors_renew_nothing() -> None:
    machine = Machine(code="AccessDenied")
    machine.accepted = 1
    with pytest.raises(RefusedError):
        machine.tried()
    assert (machine.renewals, machine.requests) == (0, 1)


def test_of_many_requests_that_are_refused_together_one_renews() -> None:
    machine = Machine()
    machine.accepted = 1

    async def both() -> list[int]:
        gate = asyncio.Event()

        async def request() -> int:
            token = machine.token
            await gate.wait()
            if token != machine.accepted:
                raise RefusedError("ExpiredToken")
            return token

        tasks = [asyncio.create_task(machine.renewal.tried(request)) for _ in range(8)]
        await asyncio.sleep(0)
        gate.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(both()) == [1] * 8
    assert machine.renewals == 1
