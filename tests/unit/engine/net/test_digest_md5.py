from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.net.digest_md5 import Credentials, DigestMd5, LoginError

# RFC 2831, section 4.
CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'
PROOF = b"rspauth=ea40f60335c427b5527b84dbabcdfffd"


@pytest.fixture
def client() -> DigestMd5:
    return DigestMd5(Credentials("chris", "secret"), "imap", "elwood.innosoft.com", "OA6MHXh6VqTrRk")


def test_the_example_of_rfc_2831(client: DigestMd5) -> None:
    answer = client.answer(CHALLENGE)
    assert b"response=d388dad90d4bbd760a152321f2143af7" in answer.split(b",")
    assert b'username="chris"' in answer.split(b",")
    assert not client.complete
    assert client.answer(PROOF) == b""
    assert client.complete


def test_a_server_that_does_not_know_the_password_is_found_out(client: DigestMd5) -> None:
    client.answer(CHALLENGE)
    with pytest.raises(LoginError, match="does not prove"):
        client.answer(PROOF.replace(b"ea40", b"ea41"))
    assert not client.complete


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"", "not one of DIGEST-MD5"),
        (b"rspauth=1", "not one of DIGEST-MD5"),
        (b'nonce="x"', "not one of DIGEST-MD5"),
        (b'nonce="x', "malformed"),
        (b"\xff", "UTF-8"),
        (b'nonce="x",algorithm=md5-sess,qop="auth-conf"', "only auth is supported"),
    ],
)
def test_other_challenges(client: DigestMd5, challenge: bytes, reason: str) -> None:
    with pytest.raises(LoginError, match=reason):
        client.answer(challenge)


def test_quotes_are_escaped() -> None:
    answer = DigestMd5(Credentials('a"\\', "secret"), "zookeeper", "zk-sasl-md5").answer(
        b'realm="say \\"a\\"",nonce="x",algorithm=md5-sess'
    )
    assert b'username="a\\"\\\\"' in answer
    assert b'realm="say \\"a\\""' in answer


@given(st.binary())
def test_any_challenge_is_answered_or_refused(challenge: bytes) -> None:
    client = DigestMd5(Credentials("a", "b"), "zookeeper", "zk-sasl-md5")
    try:
        client.answer(challenge)
    except LoginError:
        assert not client.complete


def test_a_login_hides_its_password(tmp_path: Path) -> None:
    path = tmp_path / "login"
    path.write_text("pool:pass:word\n")
    login = Credentials.read(path)
    assert (login.user, login.password) == ("pool", "pass:word")
    assert "word" not in repr(login)


@pytest.mark.parametrize("text", ["", "pool", "pool:", ":secret", "pool:secret\nother:secret", "a:" + "b" * 5000])
def test_other_login_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "login"
    path.write_text(text)
    with pytest.raises(LoginError, match="USER:PASSWORD") as caught:
        Credentials.read(path)
    assert "secret" not in str(caught.value).replace(str(path), "")


def test_a_login_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(LoginError, match="cannot be read: No such file"):
        Credentials.read(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"pool:\xff")
    with pytest.raises(LoginError, match="UTF-8"):
        Credentials.read(tmp_path / "binary")
