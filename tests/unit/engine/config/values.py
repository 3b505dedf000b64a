"""Right and wrong values of every kind of option: an option of a known kind needs no row of its own."""

from pathlib import Path
from typing import Any, NamedTuple

from readonly_engine.config.kinds import LIMIT, SIZE
from readonly_engine.config.limits import DispatchRate
from readonly_engine.config.listeners import BindAddress, Urls
from readonly_engine.config.oauth2 import OAuth2Config
from readonly_engine.config.option import Kind, Option, options_of
from readonly_engine.config.settings import EngineConfig
from readonly_engine.config.tiered import TieredConfig
from readonly_engine.metadata.url import FORMS

REQUIRED = {
    "metadata-store-url": "zk:127.0.0.1:2181",
    "service-url": "pulsar://127.0.0.1:6650",
    "admin-url": "http://127.0.0.1:8080",
    "topics": ["orders"],
}
"""Options without which no broker starts."""

A_TIME = "a time of this millennium with its zone, such as 2026-11-21T14:00:00Z or 2026-11-21T15:00:00+01:00"
PLACE = "/RACK or /ZONE/RACK (as in pulsar-admin bookies set-bookie-rack)"
LISTENER = "NAME:pulsar://HOST:PORT or NAME:pulsar+ssl://HOST:PORT"


class Values(NamedTuple):
    """Values of a kind.

    Attributes:
        right: the value of the option by what is written in the file.
        wrong: what no schema accepts and no broker.
        late: wrong values that only a broker finds: no pattern can.
    """

    right: list[tuple[Any, Any]]
    wrong: list[Any]
    late: tuple[Any, ...] = ()


def urls(plain: str, encrypted: str) -> Values:
    same = [f"{plain}://a:1,b:1", f"{encrypted}://a:1", f"{plain}://a", f"{plain}://[fe80::1%eth0]:1"]
    wrong = ["host:6650", f"{plain}://", *(f"{plain}://{end}" for end in URL_ENDS)]
    wrong += [f"{plain}://a:1,{plain}://b:1", f"{plain}://a:1,", f"{plain}://a:1/,b:1", f"{plain.upper()}://a:1", None]
    return Values(
        [(f"{plain}://a:1/", f"{plain}://a:1"), *((one, one) for one in same)], wrong, (f"{plain}://a:99999",)
    )


def url(scheme: str) -> Values:
    wrong = ["me:6650", f"{scheme}://a:1,b:1", f"{scheme.upper()}://a:1", *(f"{scheme}://{end}" for end in URL_ENDS)]
    return Values([(f"{scheme}://me:1/", f"{scheme}://me:1")], wrong)


URL_ENDS = ("a:port", "a:1/path", "a:1?x=1", "a:1#x", "a:", "a\n:1", "a b:1", "a:1\n")
BY_FORM = {
    "the path of a file": Values([("/run/a.pem", Path("/run/a.pem"))], ["", True, 5, None, ["a"]]),
    "an absolute path": Values([("/mnt", Path("/mnt"))], ["mnt", "", 5]),
    "true or false": Values([(False, False), ("true", True), (True, True), ("false", False)], ["no", [], None, 1.5]),
    "a non-empty text": Values([("red", "red")], ["", 5]),
    "HOST:PORT": Values(
        [("127.0.0.1:7000", ("127.0.0.1", 7000)), ("[::1]:0", ("::1", 0)), ("*:6650", ("*", 6650))],
        ["6650", ":6650", "host:", "host:http", 8080, "a:1\n", "a\n:1", "a b:1"],
        ("host:65536",),
    ),
    SIZE.expected: Values(
        [("1GiB", 1 << 30), ("64Mi", 64 << 20), ("256KiB", 256 << 10), (1024, 1024), ("5", 5), ("7B", 7), (0, 0)],
        ["lots", "64MB", -1, True, "1\n", "1MiB\n", 1.5],
    ),
    "a list of topics or patterns": Values(
        [(["orders", "persistent://a/b/.*"], ("orders", "persistent://a/b/.*")), ([], ())],
        ["orders", ["orders", 5], [""], None],
    ),
    FORMS: Values(
        [(one, one) for one in ("zk:a:1,b:2/chroot", "metadata-store:zk:a:1", "oxia://a:6648/ns", "zk:[::1]:2181")],
        [
            "127.0.0.1:2181",
            "zk:host",
            "zk:a:1,b",
            "zk:a:1/with space",
            "zk+hierarchical://a:2181/ledgers",
            "",
            5,
            "zk:a:1\n",
            "zk:a:2181,",
            "oxia:a:6648",
            "oxia://a",
            "oxia://a:1,b:2/x",
            "oxia://a:1/x/y",
            "etcd:http://a:1",
        ],
    ),
    "pulsar://HOST:PORT": url("pulsar"),
    "pulsar+ssl://HOST:PORT": url("pulsar+ssl"),
    "pulsar://HOST:PORT[,HOST:PORT...] or pulsar+ssl://HOST:PORT[,HOST:PORT...]": urls("pulsar", "pulsar+ssl"),
    "http://HOST:PORT[,HOST:PORT...] or https://HOST:PORT[,HOST:PORT...]": urls("http", "https"),
    "http://HOST:PORT or https://HOST:PORT": Values(
        [("http://a:4318", "http://a:4318"), ("https://a:1/", "https://a:1")],
        ["a:4318", "http://a:1,b:1", "http://a:1/v1/traces", 5],
    ),
    "http://HOST:PORT or https://HOST": Values([("https://a/", "https://a")], ["a:1", "", 5]),
    PLACE: Values([("/zone/rack", "/zone/rack"), ("/rack", "/rack")], ["rack-1", "/a//b", "/a\n", "/", "/a b"]),
    "a number of seconds above 0, at most 600": Values([(1.5, 1.5), (600, 600.0)], [0, 601, "5", True]),
    A_TIME: Values(
        [("2026-11-21T14:00:00Z", 1_795_269_600_000), ("2026-11-21T16:00:00.5+01:00", 1_795_273_200_500)],
        ["2026-11-21", "2026-11-21T14:00:00", "1999-11-21T14:00:00Z", 5, "now", ""],
        ("2026-13-21T14:00:00Z",),
    ),
    "a number from 0.01 to 1000, or unlimited": Values(
        [("2.5", 2.5), (1000, 1000.0), (0.01, 0.01), ("unlimited", float("inf"))],
        [0.001, -1, "-1", "fast", True, "nan", "1e3"],
        ("0", "1001"),
    ),
    "a mapping such as {read-priority: bookkeeper-first}": Values(
        [
            ({"read-priority": "bookkeeper-first"}, TieredConfig(read_priority="bookkeeper-first")),
            ("{region: eu}", TieredConfig(region="eu")),
            ({}, TieredConfig()),
        ],
        [None, 5],
        ("{read-priority: fastest", "s3"),
    ),
    "a mapping such as {messages: 1000, bytes: 10MiB}": Values(
        [({"messages": 5}, DispatchRate(5)), ("{bytes: 1MiB}", DispatchRate(0, 1 << 20))],
        [1000, {}],
        ("{messages: 5", "{}"),
    ),
    "a mapping such as {issuer-url: 'https://issuer.example.com', key-file: /run/secrets/key.json}": Values(
        [
            (
                {"issuer-url": "https://i", "key-file": "/k"},
                OAuth2Config(issuer_url="https://i", key_file=Path("/k")),
            )
        ],
        [None],
        ("{}", "token"),
    ),
}
LISTENERS = {
    "advertised_listeners": Values(
        [
            ("out:pulsar://a:1,out:pulsar+ssl://a:2", {"out": Urls("pulsar://a:1", "pulsar+ssl://a:2")}),
            (["in:pulsar://a:1"], {"in": Urls("pulsar://a:1")}),
        ],
        [5, [""]],
    ),
    "bind_addresses": Values(
        [(["out:pulsar+ssl://0.0.0.0:6661"], (BindAddress("out", tls=True, host="0.0.0.0", port=6661),))],
        [[6660], None],
    ),
}
"""Two kinds have one form of errors: what comes of them is not the same."""


def _number(kind: Kind[Any]) -> Values | None:
    """Bounds of a whole number, from its schema; None for another kind."""
    schema = ((kind.schema or {}).get("anyOf") or [{}])[0]
    if kind.form != LIMIT.form or schema.get("type") != "integer":
        return None
    least, most = schema["minimum"], schema["maximum"]
    return Values(
        [(least, least), (str(least), least), (most, most), (str(most), most)],
        [least - 1, most + 1, "many", True, least + 0.5],
        () if len(str(most)) > 4 else (str(most + 1),),
    )


def values_of(one: Option) -> Values:
    """Right and wrong values of an option.

    Raises:
        KeyError: a kind that has no values yet: add a row to BY_FORM.
    """
    kind = one.kind
    if kind.choices:
        first = kind.choices[0]
        return Values([(word, word) for word in kind.choices], [first.capitalize(), f"{first}-", True, [], None])
    return _number(kind) or LISTENERS.get(one.name) or BY_FORM[kind.expected]


def declaring(cls: type = EngineConfig) -> list[type]:
    """The settings of a broker, and each mapping among them."""
    nested = {one.kind.declaring for one in options_of(cls)} - {None}
    return [cls, *(found for inner in nested for found in declaring(inner))]


OPTIONS = [(cls, one) for cls in declaring() for one in options_of(cls)]
