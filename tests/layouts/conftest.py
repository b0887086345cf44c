"""One proxy before the S3 server for all of these tests, since a client of another endpoint takes a second to make."""

from collections.abc import Iterator

import pytest

from tests.support.s3 import FaultProxy, S3Server
from tests.support.waiting import wait_until


@pytest.fixture(scope="session")
def shared_proxy(s3: S3Server) -> Iterator[FaultProxy]:
    made = FaultProxy(s3.address).start()
    yield made
    made.stop()


@pytest.fixture
def proxy(shared_proxy: FaultProxy) -> FaultProxy:
    """Return a proxy without faults, which has seen nothing yet."""
    shared_proxy.faults = []
    wait_until(lambda: not shared_proxy.is_busy, seconds=300)
    shared_proxy.seen.clear()
    shared_proxy.flips.clear()
    shared_proxy.is_conditional = False
    shared_proxy.replay = None
    return shared_proxy
