import base64
import errno
import hmac
import os
import pickle
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

import ledgerfs
from ledgerfs.errors import DecryptionError, EncryptedMessageError, LedgerfsError
from ledgerfs.messages.decode import decryption
from ledgerfs.messages.decode.decryption import Decryptor, EncryptedDataKey, PrivateKeys
from tests.support.each import for_each
from tests.support.encryption import IV, encrypt, kdf2, pem_of, wrap, wrap_ecies

TOPIC = "persistent://public/golden/encrypted"
TEXT = b"ledger, block by block"

# Made with MessageCryptoBc of Pulsar 4.0.7 (BouncyCastle 1.78.1) for keys of `openssl ecparam -genkey`, made for this test.
P256_KEY = """\
-----BEGIN EC PARAMETERS-----
BggqhkjOPQMBBw==
-----END EC PARAMETERS-----
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIONMlL/9cq7djVRMMP/KnTgOUU5LC3dGeqyaJLXVvDTeoAoGCCqGSM49
AwEHoUQDQgAE3Joopn193RQePV2CKMzh0eUnLnUeMc4+c4dvsJRUjRfDJR1ygCKW
B2no878M82Rn44xhFk7IQunB15HdvQuRhQ==
-----END EC PRIVATE KEY-----
"""
P521_KEY = """\
-----BEGIN EC PRIVATE KEY-----
MIHcAgEBBEIAoJsnac5r3opFVN9PI5xpPlqYWNnQ/a6bWqzfNnVEYDd+zCTX3E2x
eIsqN0r254VCT0wO506tQcbH3RbLVeEv/0SgBwYFK4EEACOhgYkDgYYABAFuBEsb
DVm+t6xIOf2nr95Mp2gb9f4Q//pJ0kxD/chmFeUBiKPvJ6DdxF3Pn0wu6gB0iSt5
b+D7kTtyYCioj8EfygEuQVpuacMCTsx88qcxKGxuNRKhRWdcUzftYttYsiGI+QKb
+MnVNTVFssMSAOCdBEUAkR/4w5VJ7WK64WOjoqpXXQ==
-----END EC PRIVATE KEY-----
"""
# By `openssl ecparam -name secp521r1 -genkey -param_enc explicit`, as Pulsar's guide to encryption has it.
EXPLICIT_P521_KEY = """\
-----BEGIN EC PARAMETERS-----
MIIBwwIBATBNBgcqhkjOPQEBAkIB////////////////////////////////////
//////////////////////////////////////////////////8wgZ8EQgH/////
////////////////////////////////////////////////////////////////
/////////////////ARCAFGVPrlhjhyaH5KaIaC2hUDuotpyW5mzFfO4tImRjvEJ
4VYZOVHsfpN7FlLAvTuxvwc1c9+IPSw08e9FH9RrUD8AAxUA0J6IACkcuFOWzGcX
OTKEqqDaZLoEgYUEAMaFjga3BATpzZ4+y2YjlbRCnGSBOQU/tSH4KK9ga009uqFL
Xnfv51ko/h3BJ6L/qN4zSLPBhWpCm/l+fjHC5b1mARg5KWp4mjvABFyKX7QsfRvZ
mPVESVebRGgXr70XJz5mLJfucple9CZAxVC5AT+tB2E1PHCGonLCQIi+lHaf0WZQ
AkIB///////////////////////////////////////////6UYaHg78vlmt/zAFI
9wml0Du1ybiJnEeuu2+3HpE4ZAkCAQE=
-----END EC PARAMETERS-----
-----BEGIN EC PRIVATE KEY-----
MIICngIBAQRCAIAdvYJ77lzmAwiCQ9UhCCSK8Ek1/aCmQU/8ud3RRWuzSrOxVSbn
HxhQohXyH6UceDF+d3oYtb/r7a2aKJ64szkgoIIBxzCCAcMCAQEwTQYHKoZIzj0B
AQJCAf//////////////////////////////////////////////////////////
////////////////////////////MIGfBEIB////////////////////////////
//////////////////////////////////////////////////////////wEQgBR
lT65YY4cmh+SmiGgtoVA7qLacluZsxXzuLSJkY7xCeFWGTlR7H6TexZSwL07sb8H
NXPfiD0sNPHvRR/Ua1A/AAMVANCeiAApHLhTlsxnFzkyhKqg2mS6BIGFBADGhY4G
twQE6c2ePstmI5W0QpxkgTkFP7Uh+CivYGtNPbqhS1537+dZKP4dwSei/6jeM0iz
wYVqQpv5fn4xwuW9ZgEYOSlqeJo7wARcil+0LH0b2Zj1RElXm0RoF6+9Fyc+ZiyX
7nKZXvQmQMVQuQE/rQdhNTxwhqJywkCIvpR2n9FmUAJCAf//////////////////
////////////////////////+lGGh4O/L5Zrf8wBSPcJpdA7tcm4iZxHrrtvtx6R
OGQJAgEBoYGJA4GGAAQA3SoiIYVtej5MOfmeeEN8YDoYr1GDOFf2Ml6tV00aSYsC
wdX3hUxh/r4B/6H7PdWKG+Rlsvv2fTPgyzlizfM4CWcAQ5EQ2Nc1O/hHeCKmK5TM
Cy3FIFxRNxc5oYSbRZkK5m2n7rE5uW9B6bYcRpkPiGAtM/lSau4FZSNIibaTwezK
k24=
-----END EC PRIVATE KEY-----
"""
JAVA_MADE = {
    "P-256": (
        P256_KEY,
        (
            "BJQ1aMJLtgIEkTp9dmw6VZPYJnNb9AOrxhUWeV3Xl6/QBtM2BaYZpaGMhqlwN9EM4fxg5TSYrMIDnOksyj/VnVEbByKBp+resAzZHFTDBlfOzXK0Jij2"
            "/BeJi5JQbKIW7YRok+9pltQMZWXohZ9JxIM5NXPD"
        ),
        "ae/hvqRYtE3c+Woj",
        "ubuyiVKQ1b/iZOMUJtbhaurcaTv6OdQFWuep1udGEIMfThRrFGd+DR6aHJWr41RwK3TLsRuE",
        b"hello from MessageCryptoBc, withparams",
    ),
    "P-521": (
        P521_KEY,
        (
            "BAA2rlfLKFlwXZ1VRrO7IKg75qwHByniHoKIrZ3EiBSGb/Ya1aFheBembSAsqYXjQuYNV61p9uvikxRt1Z4Z3kHqlgG1R9nSxgsN/PTb01v621/BYV82"
            "3Y+/5WN8piM0DgpwRmk7+PWoweuyjm4BfulIDKjXdQ+wQWNHxOMQA5juqYgKmfGFA4FPN4VCMctSajnTAsYOdvyzlsHJ+YaTpxCYpxYm6M65Vq+wuAG2"
            "SHOElPgif26SyDs="
        ),
        "TZBgm5Ets8oSptnJ",
        "dtnc1v7g4c/4VclgiF5KtadpvlCzh06m09HvjiKBXYEDKAkpddb0pZvshRjEX+C8s6uEzF4=",
        b"hello from MessageCryptoBc, secp521r1",
    ),
}


# Keys.


@pytest.fixture(scope="module")
def rsa_key():
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture(scope="module")
def other_rsa_key():
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture(scope="module")
def ec_key():
    return ec.generate_private_key(ec.SECP256R1())


def decryptor(**keys):
    return Decryptor(PrivateKeys.of({name: pem_of(key) for name, key in keys.items()}))


# What Pulsar wrote.


def test_golden_data_keys_are_unwrapped_once(golden, golden_url, monkeypatch):
    calls = []

    def counted(keys, wrapped, unwrap=PrivateKeys.unwrap):
        calls.append(wrapped)
        return unwrap(keys, wrapped)

    monkeypatch.setattr(PrivateKeys, "unwrap", counted)
    keys = {"golden.key": golden / "keys" / "private.pem"}
    assert ledgerfs.open_bucket(golden_url).topic(TOPIC).scan(private_keys=keys).to_arrow().num_rows > 60
    # Two producers in each of three rounds.
    assert len(calls) == len(set(calls)) == 6


@pytest.mark.parametrize("curve", JAVA_MADE)
def test_ec_messages_of_the_java_client(curve):
    pem, wrapped, iv, ciphertext, text = JAVA_MADE[curve]
    wrapped, iv, ciphertext = map(base64.b64decode, (wrapped, iv, ciphertext))
    keys = PrivateKeys.of({"ec": pem})
    assert Decryptor(keys).decrypt([EncryptedDataKey("ec", wrapped)], iv, ciphertext) == text


# Round trips.


@for_each("kind", ["rsa_key", "ec_key"])
@for_each("size", [16, 24, 32])
@for_each("text", [TEXT, b""])
def test_round_trip(request, kind, size, text):
    key = request.getfixturevalue(kind)
    wrapped, iv, ciphertext = encrypt(text, ("a", key), data_key=os.urandom(size))
    decrypt = decryptor(a=key).decrypt
    assert decrypt(wrapped, iv, ciphertext) == text
    assert decrypt(wrapped, iv, memoryview(b"--" + ciphertext + b"--")[2:-2]) == text
    assert type(decrypt(wrapped, iv, memoryview(ciphertext))) is bytes


@for_each("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1(), ec.SECP256K1()])
def test_curves(curve):
    key = ec.generate_private_key(curve)
    assert decryptor(a=key).decrypt(*encrypt(TEXT, ("a", key))) == TEXT


@pytest.mark.parametrize("form", [serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL])
@pytest.mark.parametrize("kind", ["rsa_key", "ec_key"])
def test_sources_of_keys(request, tmp_path, kind, form):
    key = request.getfixturevalue(kind)
    pem = pem_of(key, form)
    path = tmp_path / "private.pem"
    path.write_bytes(pem)
    message = encrypt(TEXT, ("a", key))
    for source in (pem, pem.decode(), path):
        assert Decryptor(PrivateKeys.of({"a": source})).decrypt(*message) == TEXT


def test_any_reader_can_read(rsa_key, other_rsa_key, ec_key):
    message = encrypt(TEXT, ("a", rsa_key), ("b", other_rsa_key), ("c", ec_key))
    for key, name in ((rsa_key, "a"), (other_rsa_key, "b"), (ec_key, "c")):
        assert decryptor(**{name: key}).decrypt(*message) == TEXT


def test_a_key_that_does_not_fit_gives_way_to_one_that_does(rsa_key, other_rsa_key, ec_key):
    message = encrypt(TEXT, ("a", rsa_key), ("b", ec_key))
    assert decryptor(a=other_rsa_key, b=ec_key).decrypt(*message) == TEXT


def test_a_data_key_of_another_message_gives_way(rsa_key, ec_key):
    wrapped, iv, ciphertext = encrypt(TEXT, ("b", ec_key))
    stray = EncryptedDataKey("a", wrap(rsa_key, bytes(32)))
    assert decryptor(a=rsa_key, b=ec_key).decrypt([stray, *wrapped], iv, ciphertext) == TEXT


def test_two_data_keys_under_one_name(rsa_key, other_rsa_key):
    message = encrypt(TEXT, ("a", other_rsa_key), ("a", rsa_key))
    assert decryptor(a=rsa_key).decrypt(*message) == TEXT


def test_the_cache_is_bounded(ec_key, monkeypatch):
    monkeypatch.setattr(decryption, "_CACHED_DATA_KEYS", 2)
    reader = decryptor(a=ec_key)
    for i in range(5):
        assert reader.decrypt(*encrypt(TEXT, ("a", ec_key), data_key=bytes([i]) * 32)) == TEXT
    assert reader._cipher_of.cache_info().currsize == 2


def test_decryptors_share_no_data_keys(rsa_key, other_rsa_key):
    message = encrypt(TEXT, ("a", rsa_key))
    assert decryptor(a=rsa_key).decrypt(*message) == TEXT
    with pytest.raises(DecryptionError, match="does not fit"):
        decryptor(a=other_rsa_key).decrypt(*message)


def test_threads_share_a_decryptor(ec_key, monkeypatch):
    monkeypatch.setattr(decryption, "_CACHED_DATA_KEYS", 3)
    reader = decryptor(a=ec_key)
    messages = [(text, encrypt(text, ("a", ec_key), data_key=os.urandom(32))) for text in (b"%d" % i for i in range(8))]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            read = list(pool.map(lambda i: reader.decrypt(*messages[i % 8][1]), range(2000)))
    finally:
        sys.setswitchinterval(interval)
    assert read == [messages[i % 8][0] for i in range(2000)]


# Errors.


def failure(call, *arguments, kind=DecryptionError):
    with pytest.raises(kind) as caught:
        call(*arguments)
    error = caught.value
    assert isinstance(error, LedgerfsError)
    assert error.errno == errno.EACCES
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.errno) == (kind, str(error), errno.EACCES)
    return str(error)


def test_no_key_of_these_names(rsa_key):
    message = encrypt(TEXT, ("eu\n", rsa_key), ("us", rsa_key), ("us", rsa_key))
    assert failure(decryptor(mine=rsa_key, a=rsa_key).decrypt, *message, kind=EncryptedMessageError).startswith(
        "the message is encrypted for 'eu\\n' or 'us', the given private keys are: 'a', 'mine'; pass the right key"
    )
    assert "'us', the given private keys are: none;" in failure(
        decryptor().decrypt, *message, kind=EncryptedMessageError
    )


def test_no_keys_in_the_message(rsa_key):
    assert "does not contain the name of a key" in failure(
        decryptor(a=rsa_key).decrypt, [], IV, bytes(32), kind=EncryptedMessageError
    )


def test_a_key_that_does_not_fit(rsa_key, other_rsa_key, ec_key):
    other_ec_key = ec.generate_private_key(ec.SECP256R1())
    longer_rsa_key = rsa.generate_private_key(65537, 3072)
    longer_ec_key = ec.generate_private_key(ec.SECP384R1())
    for right, wrong in (
        (rsa_key, other_rsa_key),
        (rsa_key, longer_rsa_key),
        (rsa_key, ec_key),
        (ec_key, other_ec_key),
        (ec_key, longer_ec_key),
        (ec_key, rsa_key),
    ):
        reader = decryptor(a=wrong)
        message = encrypt(TEXT, ("a", right))
        for _ in range(2):  # the second time from the cache
            assert failure(reader.decrypt, *message).startswith("the private key given as 'a' does not fit")


@pytest.mark.parametrize("kind", ["rsa_key", "ec_key"])
def test_a_damaged_data_key(request, kind):
    key = request.getfixturevalue(kind)
    [wrapped], iv, ciphertext = encrypt(TEXT, ("a", key))
    reader = decryptor(a=key)
    value = wrapped.value
    damaged = [value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :] for at in range(0, len(value), 4)]
    damaged += [value[:at] for at in (0, 1, 19, 20, 21, 64, 65, 84, 85, 86, 101, len(value) - 1)] + [value + b"\0"]
    for wrong in damaged:
        assert "does not fit" in failure(reader.decrypt, [EncryptedDataKey("a", wrong)], iv, ciphertext)


@for_each("kind", ["rsa_key", "ec_key"])
@for_each("size", [0, 15, 33, 64])
def test_a_data_key_of_a_size_that_aes_has_not(request, kind, size):
    key = request.getfixturevalue(kind)
    wrapped = [EncryptedDataKey("a", wrap(key, bytes(size)))]
    assert "does not fit" in failure(decryptor(a=key).decrypt, wrapped, IV, bytes(32))


def test_bouncycastle_before_pulsar_is_not_accepted(ec_key):
    """Its MAC covers four zeros; so that the eight of ours are known to matter."""
    value = wrap_ecies(ec_key.public_key(), bytes(32))
    secret = ec_key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec_key.curve, value[:65]))
    stream = kdf2(value[:65] + secret, 48)
    old = value[:-20] + hmac.digest(stream[:16], value[65:-20] + bytes(4), "sha1")
    keys = PrivateKeys.of({"a": pem_of(ec_key)})
    assert keys.unwrap(EncryptedDataKey("a", value)) == bytes(32)
    assert keys.unwrap(EncryptedDataKey("a", old)) is None


def test_a_changed_message(rsa_key):
    wrapped, iv, ciphertext = encrypt(TEXT, ("a", rsa_key))
    reader = decryptor(a=rsa_key)
    for at in range(len(ciphertext)):
        changed = bytearray(ciphertext)
        changed[at] ^= 0x80
        assert "tag does not verify" in failure(reader.decrypt, wrapped, iv, bytes(changed))
    for short in (ciphertext[:-1], ciphertext[:16], ciphertext[:15], b"", ciphertext + b"\0"):
        assert "tag does not verify" in failure(reader.decrypt, wrapped, iv, short)
    assert "tag does not verify" in failure(reader.decrypt, wrapped, bytes(12), ciphertext)
    assert reader.decrypt(wrapped, iv, ciphertext) == TEXT


@for_each("size", [0, 8, 11, 13, 16])
def test_an_initialization_vector_of_wrong_length(rsa_key, size):
    wrapped, _, ciphertext = encrypt(TEXT, ("a", rsa_key))
    reason = failure(decryptor(a=rsa_key).decrypt, wrapped, bytes(size), ciphertext)
    assert f"initialization vector has {size} bytes instead of 12" in reason


def unusable_keys(key):
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    lines = pem_of(key).splitlines(keepends=True)
    yield "not a private key", public
    yield "not a private key", b""
    yield "not a private key", "no PEM"
    yield "not a private key", b"".join(lines).decode().replace("=", "\ud800").replace("A", "\ud800")
    yield "not a private key", b"".join(lines[:2] + lines[3:])
    yield "not a private key", b"".join(lines[1:-1])
    yield "not a private key", b"".join(lines[:-1])
    yield "not a private key", b"".join(lines).replace(lines[2], b"!" + lines[2][1:])
    yield "password", pem_of(key, secret=b"secret")
    yield "password", pem_of(key, serialization.PrivateFormat.TraditionalOpenSSL, b"secret")
    yield "neither RSA nor EC", pem_of(ed25519.Ed25519PrivateKey.generate())


def test_keys_that_cannot_be_used(rsa_key):
    for reason, source in unusable_keys(rsa_key):
        text = failure(PrivateKeys.of, {"mine": source})
        assert reason in text
        assert "'mine'" in text


def test_a_key_made_as_pulsars_guide_has_it():
    key = serialization.load_pem_private_key(EXPLICIT_P521_KEY.encode(), None)
    reader = Decryptor(PrivateKeys.of({"guide": EXPLICIT_P521_KEY}))
    assert reader.decrypt(*encrypt(TEXT, ("guide", key))) == TEXT


def test_a_cryptography_that_cannot_read_such_a_key_is_reported_of(monkeypatch):
    def refuse(*_, **__):
        raise ValueError("ECDSA keys with explicit parameters are unsupported at this time")  # as 42 to 46 do

    monkeypatch.setattr(decryption, "load_pem_private_key", refuse)
    text = failure(PrivateKeys.of, {"guide": EXPLICIT_P521_KEY})
    assert "'guide'" in text
    assert "cryptography 47" in text
    assert "-param_enc named_curve" in text


def test_key_files_that_cannot_be_read(tmp_path):
    missing = tmp_path / "missing.pem"
    text = failure(PrivateKeys.of, {"mine": missing})
    assert text == f"{missing}: the private key 'mine' cannot be read: {os.strerror(errno.ENOENT)}"
    assert os.strerror(errno.EISDIR) in failure(PrivateKeys.of, {"mine": tmp_path})


def test_a_path_as_text_is_not_opened(rsa_key, tmp_path):
    path = tmp_path / "private.pem"
    path.write_bytes(pem_of(rsa_key))
    text = failure(PrivateKeys.of, {"mine": str(path)})
    assert "as a Path" in text
    assert str(path) not in text


# What may be seen, and what travels.


def pieces_of(key):
    """Parts of a private key in the spellings that a text could hold."""
    lines = pem_of(key).decode().splitlines()[1:-1]
    numbers = key.private_numbers()
    secrets = [numbers.d, numbers.p, numbers.q] if isinstance(key, rsa.RSAPrivateKey) else [numbers.private_value]
    return [line[:16] for line in lines] + [str(n)[:20] for n in secrets] + [f"{n:x}"[:16] for n in secrets]


@pytest.mark.parametrize("kind", ["rsa_key", "ec_key"])
def test_texts_show_no_key_material(request, kind):
    key = request.getfixturevalue(kind)
    keys = PrivateKeys.of({"b": pem_of(key), "a": pem_of(key)})
    reader = Decryptor(keys)
    data_key = os.urandom(32)
    wrapped, iv, ciphertext = encrypt(TEXT, ("a", key), data_key=data_key)
    reader.decrypt(wrapped, iv, ciphertext)
    assert repr(keys) == str(keys) == "PrivateKeys('a', 'b')"
    assert repr(reader) == str(reader) == "Decryptor(PrivateKeys('a', 'b'))"
    assert repr(wrapped[0]) == "EncryptedDataKey(name='a')"
    texts = [repr(thing) for thing in (keys, reader, *wrapped, reader._cipher_of, reader._cipher_of(wrapped[0]))]
    failures = [
        (reader.decrypt, (wrapped, b"", ciphertext)),
        (reader.decrypt, (wrapped, iv, ciphertext[1:])),
        (reader.decrypt, ([EncryptedDataKey("a", b"x" * 256)], iv, ciphertext)),
        (reader.decrypt, ([EncryptedDataKey("c", wrapped[0].value)], iv, ciphertext)),
        *((PrivateKeys.of, ({"mine": source},)) for _, source in unusable_keys(key)),
    ]
    for call, arguments in failures:
        with pytest.raises((DecryptionError, EncryptedMessageError)) as caught:
            call(*arguments)
        error = caught.value
        texts += [
            str(error),
            repr(error),
            repr(error.args),
            repr(vars(error)),
            "".join(traceback.format_exception(error)),
        ]
        while error := error.__context__:
            texts += [str(error), repr(error)]
    secrets = [*pieces_of(key), data_key.hex(), repr(data_key)[2:-1], base64.b64encode(data_key).decode()]
    for text in texts:
        assert not [secret for secret in secrets if secret in text], text


@pytest.mark.parametrize("kind", ["rsa_key", "ec_key"])
def test_pickles(request, kind, tmp_path):
    key = request.getfixturevalue(kind)
    path = tmp_path / "private.pem"
    path.write_bytes(pem_of(key))
    message = encrypt(TEXT, ("a", key))
    keys = PrivateKeys.of({"a": path, "b": pem_of(key)})
    reader = Decryptor(keys)
    reader.decrypt(*message)
    stored = pickle.dumps((keys, reader, message[0]))
    path.unlink()  # a worker elsewhere has no such file
    keys, reader, wrapped = pickle.loads(stored)
    assert keys.names == ["a", "b"]
    assert "a" in keys
    assert "c" not in keys
    assert wrapped == message[0]
    assert reader.decrypt(*message) == Decryptor(keys).decrypt(*message) == TEXT
