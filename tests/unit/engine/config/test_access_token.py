"""Access tokens: what is requested, which answers count, and when the next request is due."""

import json
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.config.access_token import (
    DEFAULT_LIFETIME_S,
    MAX_LIFETIME_S,
    MAX_RETRY_S,
    MIN_LIFETIME_S,
    MIN_REJECTED_AGE_S,
    AccessToken,
    AccessTokenError,
    ClientCredentials,
    TokenRefresh,
    discovery_url,
    token_endpoint,
)

KEY_FILE = {"type": "client_credentials", "client_id": "me", "client_secret": "s3cret", "issuer_url": "https://i"}
ISSUER = "https://issuer.example.com/realm"


def test_a_key_file_of_stock_clients_is_read():
    assert ClientCredentials.of_key_file(json.dumps(KEY_FILE)) == ClientCredentials("me", "s3cret")
    without_type = {key: value for key, value in KEY_FILE.items() if key != "type"}
    assert ClientCredentials.of_key_file(json.dumps(without_type)) == ClientCredentials("me", "s3cret")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("s3cret", "the key file is not JSON"),
        pytest.param("[" * 100_000, "the key file is not JSON", id="too deep"),
        ('["s3cret"]', "the key file is not a JSON object"),
        (json.dumps({**KEY_FILE, "type": "s3cret"}), "type of the key file must be client_credentials"),
        (json.dumps({**KEY_FILE, "client_id": None}), "client_id of the key file is missing"),
        (json.dumps({**KEY_FILE, "client_secret": 5}), "client_secret of the key file is missing"),
        (json.dumps({**KEY_FILE, "client_secret": ""}), "client_secret must be a non-empty text in one line"),
        (json.dumps({**KEY_FILE, "client_secret": "s3cret\n"}), "client_secret must be a non-empty text in one line"),
    ],
)
def test_another_key_file_is_refused_without_its_secrets(text, says):
    with pytest.raises(AccessTokenError) as caught:
        ClientCredentials.of_key_file(text)
    assert str(caught.value) == says


def test_a_secret_is_in_no_text():
    assert "s3cret" not in repr(ClientCredentials("me", "s3cret"))
    assert "s3cret" not in repr(AccessToken("s3cret", 1))


def test_the_form_has_what_is_given():
    body = ClientCredentials("me", "a&b=c d").form("urn:pulsar", "").decode()
    assert parse_qs(body, strict_parsing=True) == {
        "grant_type": ["client_credentials"],
        "client_id": ["me"],
        "client_secret": ["a&b=c d"],
        "audience": ["urn:pulsar"],
    }
    assert b"scope=api%3A%2F%2Fx+y" in ClientCredentials("me", "x").form("", "api://x y")


def test_the_issuer_names_its_token_endpoint():
    assert discovery_url(ISSUER + "/") == f"{ISSUER}/.well-known/openid-configuration"
    body = json.dumps({"issuer": ISSUER, "token_endpoint": "https://other.example.com:8443/token"}).encode()
    assert token_endpoint(ISSUER, 200, body) == "https://other.example.com:8443/token"
    assert token_endpoint("http://keycloak:8080", 200, b'{"token_endpoint": "http://keycloak:8080/t"}')


@pytest.mark.parametrize(
    "endpoint",
    [
        None,
        5,
        "",
        "token",
        "http://plain/token",
        "ftp://a/b",
        "https://",
        "https://u:p@a/b",
        "https://a:99999/",
        "https://[x/",
        "https://a:0/",
        "https://a b/token",
        "https://a/b\nc",
        "https://a/tok\u00e9n",
    ],
)
def test_another_token_endpoint_is_refused(endpoint):
    with pytest.raises(AccessTokenError, match=r"has no token_endpoint of https://$"):
        token_endpoint(ISSUER, 200, json.dumps({"token_endpoint": endpoint}).encode())


@pytest.mark.parametrize(("status", "body"), [(404, b"{}"), (302, b""), (500, b"secret")])
def test_an_issuer_that_does_not_answer_is_reported_by_its_status(status, body):
    with pytest.raises(
        AccessTokenError, match=f"the issuer answers HTTP {status} to /.well-known/openid-configuration$"
    ):
        token_endpoint(ISSUER, status, body)


def answer(**fields):
    return json.dumps({"access_token": "abc", "token_type": "Bearer", "expires_in": 3600, **fields}).encode()


@pytest.mark.parametrize(
    ("lifetime", "seconds"),
    [
        (3600, 3600.0),
        (59.5, 59.5),
        ("3600", 3600.0),
        (None, DEFAULT_LIFETIME_S),
        (True, DEFAULT_LIFETIME_S),
        (-5, DEFAULT_LIFETIME_S),
        ("soon", DEFAULT_LIFETIME_S),
        (0.001, MIN_LIFETIME_S),
        (10**400, MAX_LIFETIME_S),
        (float("inf"), MAX_LIFETIME_S),
        (float("nan"), DEFAULT_LIFETIME_S),
    ],
)
def test_lifetimes_have_bounds(lifetime, seconds):
    assert AccessToken.parse(200, answer(expires_in=lifetime)) == AccessToken("abc", seconds)


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (401, b'{"error": "invalid_client", "error_description": "s3cret"}', "answers HTTP 401, invalid_client"),
        (400, b'{"error": "s3cret"}', "answers HTTP 400"),
        (400, b'{"error": ["s3cret"]}', "answers HTTP 400"),
        (503, b"s3cret", "answers HTTP 503"),
        (307, b"", "answers HTTP 307"),
        (200, b"s3cret", "has no access_token"),
        (200, b"[" * 100_000, "has no access_token"),
        (200, answer(access_token=""), "has no access_token"),
        (200, answer(access_token="a\r\nX-Injected: 1"), "has no access_token"),
        (200, answer(access_token=7), "has no access_token"),
        (200, answer(token_type="mac"), "another token_type than Bearer"),
    ],
)
def test_another_answer_is_refused_without_its_text(status, body, says):
    with pytest.raises(AccessTokenError) as caught:
        AccessToken.parse(status, body)
    assert str(caught.value).endswith(says)
    assert "s3cret" not in str(caught.value)


def test_a_token_is_renewed_before_it_expires():
    refresh = TokenRefresh()
    assert refresh.is_due(0)
    assert refresh.current(0) == ""
    refresh.succeed(AccessToken("one", 100.0), 50)
    assert [refresh.is_due(now) for now in (51, 129, 130)] == [False, False, True]
    assert refresh.next_timer() == 130
    assert (refresh.current(149), refresh.current(150)) == ("one", "")


def test_failures_are_retried_ever_later_and_leave_the_valid_token():
    refresh = TokenRefresh()
    refresh.succeed(AccessToken("one", 1000.0), 0)
    waits = []
    now = 800.0
    for _ in range(10):
        refresh.fail(now)
        waits.append(refresh.next_timer() - now)
        now = refresh.next_timer()
    assert waits == [1, 2, 4, 8, 16, 32, MAX_RETRY_S, MAX_RETRY_S, MAX_RETRY_S, MAX_RETRY_S]
    assert refresh.current(999) == "one"
    refresh.succeed(AccessToken("two", 1000.0), now)
    refresh.fail(now + 800)
    assert refresh.next_timer() == now + 801


def test_changed_credentials_are_used_at_once_and_the_last_token_until_then():
    refresh = TokenRefresh()
    refresh.succeed(AccessToken("one", 1000.0), 0)
    refresh.restart()
    assert refresh.is_due(1)
    assert refresh.current(1) == "one"


@given(st.lists(st.one_of(st.floats(0, 1e6), st.none()), max_size=30))
def test_requests_are_never_more_frequent_than_the_bounds(lifetimes):
    refresh, now = TokenRefresh(), 0.0
    for lifetime in lifetimes:
        if lifetime is None:
            refresh.fail(now)
        else:
            refresh.succeed(AccessToken.parse(200, answer(expires_in=lifetime)), now)
        assert 1 - 1e-6 <= refresh.next_timer() - now <= MAX_LIFETIME_S + 1e-6
        now = refresh.next_timer()
        assert refresh.is_due(now + 1e-6)


def test_a_refused_token_is_replaced_unless_it_is_new():
    refresh = TokenRefresh()
    refresh.succeed(AccessToken("old", 86400.0), 0.0)
    refresh.reject("old", MIN_REJECTED_AGE_S - 1)
    assert not refresh.is_due(MIN_REJECTED_AGE_S - 1), "a role without a permission is refused with any token"
    refresh.reject("another", MIN_REJECTED_AGE_S)
    assert not refresh.is_due(MIN_REJECTED_AGE_S)
    refresh.reject("old", MIN_REJECTED_AGE_S)
    assert (refresh.is_due(MIN_REJECTED_AGE_S), refresh.current(MIN_REJECTED_AGE_S)) == (True, "old")
    refresh.fail(MIN_REJECTED_AGE_S)
    refresh.reject("old", MIN_REJECTED_AGE_S)
    assert not refresh.is_due(MIN_REJECTED_AGE_S), "a server that does not answer is not flooded"
    refresh.succeed(AccessToken("new", 86400.0), 400.0)
    refresh.reject("old", 800.0)
    assert not refresh.is_due(800.0)
