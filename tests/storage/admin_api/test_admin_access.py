"""How a broker is reached: addresses, tokens and certificates that are none are named."""

from pathlib import Path

import pytest

from ledgerfs.errors import InvalidOptionError
from ledgerfs.storage.admin_api.admin_requests import AdminRequests, tls_context
from tests.support.admin_api import Certificates, make_certificates
from tests.support.each import for_each


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def test_files_for_tls_are_named_when_they_are_none(certificates: Certificates, tmp_path: Path) -> None:
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    for given in (
        (text, None, None),
        (tmp_path / "nothing", None, None),
        (None, text, None),
        (None, certificates.ca, text),
    ):
        with pytest.raises(InvalidOptionError, match=str(next(one for one in given if one is not None))):
            tls_context(*given)
    with pytest.raises(InvalidOptionError, match="certificate that it is of"):
        tls_context(None, None, certificates.client)
    assert tls_context() is None


@for_each(
    "address",
    ["", "broker:8080", "pulsar://broker:6650", "http://", "http://:80", "http://a:99999", "http://a,b:8080", "http://a?x=1", "http://a b",
     "ftp://broker", "http://bröker"],
)  # fmt: skip
def test_an_address_is_one_of_a_web_service(address: str) -> None:
    with pytest.raises(InvalidOptionError):
        AdminRequests(address)


def test_an_address_may_have_a_path_and_no_credentials() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        AdminRequests("http://me:hunter2@broker")
    assert "hunter2" not in str(caught.value)
    assert AdminRequests("http://proxy/pulsar/").address == "http://proxy/pulsar"
