from types import SimpleNamespace

import pytest
from readonly_engine.broker.pool.bindings import (
    Bindings,
    BindingsError,
    Dispatch,
    from_patterns,
    load_bindings,
    parse_pattern,
)
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.broker.server.broker import Broker
from readonly_engine.config.settings import Cursors, Tail
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe
from readonly_engine.wire.subscribe_info import SubscribeInfo

from tests.support.played_broker import bound_consumer
from tests.support.yaml_documents import load_yaml

P = "persistent://public/default/"


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (
            P + "orders",
            ["orders", P + "orders-partition-3"],
            [P + "orders2", P + "my-orders", "persistent://a/b/orders"],
        ),
        ("orders", [P + "orders", P + "orders-partition-0"], [P + "orders-partition-01", "persistent://t/n/orders"]),
        ("t/n/orders", ["persistent://t/n/orders"], [P + "orders"]),
        (P + "orders-partition-1", [P + "orders-partition-1"], [P + "orders-partition-2", P + "orders"]),
        (P + "a.b", [P + "a.b"], [P + "axb"]),
        (P + "orders-.*", [P + "orders-eu", P + "orders-eu-partition-1"], [P + "orders", P + "x-orders-eu"]),
        (P + ".+", [P + "orders"], ["persistent://t/n/orders"]),
        (P + "a+b", [P + "a+b"], [P + "aab"]),
        (P + "(a|b)", [P + "a", P + "b-partition-7"], [P + "ab", P + "c"]),
        (
            P + "a|.*b",
            [P + "a", P + "xb"],
            ["persistent://t/n/b", P + "c"],
        ),  # the namespace is no part of the expression
        ("persistent://a.b/c/x.*", ["persistent://a.b/c/xy"], ["persistent://axb/c/xy"]),
        ("persistent://public/[^/]+/x", [P + "x", "persistent://public/other/x"], ["persistent://a/default/x"]),
    ],
)
def test_what_a_pattern_means(pattern, matching, others):
    parsed = parse_pattern(pattern)
    assert parsed.text == pattern
    for name in matching:
        assert parsed.matches(parse_topic_name(name)), name
    for name in others:
        assert not parsed.matches(parse_topic_name(name)), name


def test_an_option_of_a_newer_version_is_ignored_with_a_warning(tmp_path, caplog):
    file = tmp_path / "bindings.yaml"
    file.write_text("revision: '7'\nbindings: [{name: a, topics: []}, {name: b, topics: [], colour: Red, tail: Owner}]")
    loaded = load_bindings(file)
    assert [binding.name for binding in loaded.bindings] == ["a", "b"]
    assert "colour" not in loaded.bindings[1].document()
    assert "tail" in loaded.bindings[1].document()
    (record,) = caplog.records
    assert "key=colour" in record.getMessage()
    assert "bindings[1]" in record.getMessage()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a/b", "'a/b' is not a topic name; write persistent://TENANT/NAMESPACE/TOPIC, or a regular expression"),
        ("kafka://a/b/c", "starts with kafka://"),
        ("orders-.*", "'orders-.*' is not a topic pattern: it names no namespace; write a topic"),
        ("", "'' is not a topic pattern"),
        (P + "orders-(", "'persistent://public/default/orders-(' is not a topic pattern: missing ): "),
        (P + "*", None),
        ("persistent://[", "missing ]: ["),
        (
            P + "(?!orders).*",
            "invalid perl operator: (?!; it must be in RE2 syntax, which has no lookaround and no backref",
        ),
    ],
)
def test_what_is_no_pattern_is_named_and_what_would_be_one(text, says):
    if says is None:
        assert parse_pattern(text).matches(parse_topic_name("persistent://public/default//")), (
            "a valid if odd expression"
        )
        return
    with pytest.raises(BindingsError) as error:
        parse_pattern(text)
    assert says in str(error.value)
    assert "persistent://" in str(error.value)


GOOD = """
revision: "7"
bindings:
  - name: team/orders
    topics: ["persistent://public/default/orders", "persistent://public/default/x-.*"]
  - name: team/none
    topics: []
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "bindings.yaml"
    path.write_text(GOOD)
    return path


FULL = """
revision: "7"
bindings:
  - name: team/one
    topics: [persistent://public/default/orders]
    namespaces: [shop/eu.west]
    subscriptions: [audit, "ml-.*"]
    fallback: Owner
    lifecyclePolicy: Detach
    tail: Owner
    dispatch: Split
    placement: WhenCheaper
"""


@pytest.fixture
def full(file):
    file.write_text(FULL)
    return load_bindings(file)


def serves(bindings, topic, subscription):
    return bindings.serves(parse_topic_name(topic), subscription)


def test_a_binding_with_everything_is_told_as_it_was_written(full):
    assert full.bindings[0].document() == load_yaml(FULL)["bindings"][0]
    assert from_patterns("a", ["orders"]).document() == {"name": "a", "topics": ["orders"]}


def test_the_first_binding_that_names_a_source_of_new_entries_counts(file):
    entries = (
        "{name: a, topics: [x]}, {name: b, topics: [x, y], tail: Auto}, {name: c, topics: [x, y, z], tail: Bookies}"
    )
    file.write_text(f"{{revision: '1', bindings: [{entries}]}}")
    found = load_bindings(file)
    tails = [found.tail_of(parse_topic_name(topic)) for topic in ("x", "y", "z", "unbound")]
    assert tails == [Tail.AUTO, Tail.AUTO, Tail.BOOKIES, None]


def test_one_binding_of_a_subscription_that_splits_it_is_enough(file):
    bindings = "{name: a, topics: [x]}, {name: b, topics: [x], subscriptions: [b-.*], dispatch: Split}"
    file.write_text(f"revision: '7'\nbindings: [{bindings}]", encoding="utf-8")
    found = load_bindings(file)
    split = [
        found.dispatch_of(parse_topic_name(topic), name) for topic, name in (("x", "b-1"), ("x", "a"), ("y", "b-1"))
    ]
    assert split == [Dispatch.SPLIT, Dispatch.SINGLE, Dispatch.SINGLE]


def test_the_first_binding_of_a_subscription_that_names_it_says_who_keeps_its_cursor(file):
    bindings = (
        "{name: a, topics: [x], subscriptions: [b-.*]}, {name: b, topics: [x], subscriptions: [b-.*], cursors: Local},"
        "{name: c, topics: [x, y], cursors: Owner}"
    )
    file.write_text(f"revision: '7'\nbindings: [{bindings}]", encoding="utf-8")
    found = load_bindings(file)
    of = [("x", "b-1"), ("x", "other"), ("y", "b-1"), ("z", "b-1")]
    keepers = [found.cursors_of(parse_topic_name(topic), subscription) for topic, subscription in of]
    assert keepers == [Cursors.LOCAL, Cursors.OWNER, Cursors.OWNER, None]
    assert "cursors" not in found.bindings[0].document()
    assert found.bindings[1].document()["cursors"] == "Local"


def test_a_namespace_means_all_its_topics_but_pulsars_own(full):
    for name, served in [
        ("shop/eu.west/a", True),
        ("shop/eu.west/a-partition-3", True),
        ("shop/euxwest/a", False),
        ("shop/eu.west/__change_events", False),
        ("shop/eu.west/__transaction_buffer_snapshot-partition-0", False),
        ("shop/eu.west/a-audit__transaction_pending_ack", False),
    ]:
        assert serves(full, f"persistent://{name}", "audit") == served, name
    assert not serves(full, "non-persistent://shop/eu.west/a", "audit")


def test_what_a_subscription_is_bound_by_says_what_happens_to_it(full):
    topic = parse_topic_name(P + "orders")
    assert full.falls_back(topic)
    assert full.detaches(topic, "audit")
    assert not full.detaches(topic, "other")
    other = Bindings((from_patterns("a", [P + "orders"]),))
    assert not other.falls_back(topic)
    assert not other.detaches(topic, "audit")


def broker_of(file, *consumers, bindings=Bindings()):  # noqa: B008 - immutable
    """A broker with these consumers, which takes its bindings from a file."""
    made = Broker(None, None, None, None, None, None, None, None, bindings, file)
    made.connections = {SimpleConnection(list(consumers))}
    return made


class SimpleConnection:
    def __init__(self, consumers):
        self.consumers = consumers


@pytest.mark.parametrize(
    ("policy", "after", "reason"),
    [
        ("Drain", "[]", "the subscription is not bound to the pool any more"),
        ("Detach", "[]", ""),
        ("Drain", "[{name: b, topics: [orders]}]", ""),
        ("Drain", "[{name: b, topics: [orders], subscriptions: [x]}]", "the subscription is not bound"),
    ],
)
def test_consumers_of_what_is_bound_no_more_leave_unless_they_may_stay(file, policy, after, reason):
    file.write_text(f"revision: '1'\nbindings: [{{name: a, topics: [orders], lifecyclePolicy: {policy}}}]")
    consumer = bound_consumer(P + "orders", "s", bound=True)
    broker = broker_of(file, consumer)
    broker._load_bindings()
    for _ in range(2):  # a later change does not send it away either
        before = broker.bindings
        file.write_text(f"revision: '2'\nbindings: {after}")
        broker._load_bindings()
        broker._evict(before)
    assert consumer.closed_for.startswith(reason)
    assert bool(consumer.closed_for) == bool(reason)


@pytest.mark.parametrize(
    ("consumer", "cursors", "closed"),
    [
        ({"kept_here": True}, "Local", False),
        ({"kept_here": True}, "Owner", True),
        ({"kept_here": False}, "Local", True),
        ({"kept_here": False}, "Owner", False),
        ({"kept_here": False, "durable": False}, "Local", False),  # a Reader
        ({"kept_here": False, "via": "pulsar://another:6650"}, "Local", False),  # which closes it itself
    ],
)
@pytest.mark.parametrize("stayed", [False, True])
def test_a_change_of_the_keeper_closes_consumers(file, consumer, cursors, closed, stayed):
    """Also of those that a former binding has let stay."""
    connected = bound_consumer(P + "orders", "s", bound=True, **consumer)
    connected.bound = not stayed
    broker = broker_of(file, connected)
    file.write_text(f"revision: '1'\nbindings: [{{name: a, topics: [orders], cursors: {cursors}}}]")
    broker._load_bindings()
    broker._evict(Bindings())
    assert connected.closed_for == ("the keeper of the subscription's cursor has changed" if closed else "")


@pytest.mark.parametrize(
    ("split", "dispatch", "alone", "fields", "closed"),
    [
        (False, "Split", False, {}, True),
        (True, "Single", False, {}, True),
        (False, "Split", True, {}, False),  # it has chunked messages
        (False, "Single", False, {}, False),
        (True, "Split", False, {}, False),
        (False, "Split", False, {"sub_type": CommandSubscribe.Key_Shared}, True),
        (False, "Split", False, {"sub_type": CommandSubscribe.Key_Shared, "consumer_name": "n" * 101}, False),
    ],
)
def test_a_change_of_dispatch_closes_consumers(file, split, dispatch, alone, fields, closed):
    connected = bound_consumer(P + "orders", "s", bound=True)
    type(connected).split = split
    subscribe = CommandSubscribe(**({"subscription": "s", "sub_type": CommandSubscribe.Shared} | fields))
    connected.info = SubscribeInfo.of(subscribe)
    connected.owner_consumer = SimpleNamespace(subscribe_command=subscribe)
    connected.subscription = SimpleNamespace(at_owner=True)
    broker = broker_of(file, connected)
    if alone:
        broker.splits.serve_alone(ClaimKey(connected.topic, "s"), 600, "chunks")
    file.write_text(f"revision: '1'\nbindings: [{{name: a, topics: [orders], dispatch: {dispatch}}}]")
    broker._load_bindings()
    broker._evict(Bindings())
    assert connected.closed_for == ("the dispatch of the subscription has changed" if closed else "")


def test_bindings_that_name_different_keepers_are_logged_once(file, caplog):
    bindings = ", ".join(
        f"{{name: {name}, topics: [orders, payments], cursors: {cursors}{more}}}"
        for name, cursors, more in [("a", "Local", ""), ("b", "Local", ""), ("c", "Owner", ", subscriptions: [x]")]
    )
    file.write_text(f"revision: '7'\nbindings: [{bindings}]")
    found = load_bindings(file)
    for topic, name, logged in [("orders", "s", 0), ("orders", "x", 1), ("payments", "x", 1)]:
        assert found.cursors_of(parse_topic_name(topic), name) is Cursors.LOCAL
        assert len(caplog.records) == logged
    assert caplog.messages[0].endswith("subscription=x first=a cursors=local other=c cursors=owner")


@pytest.mark.parametrize("via", ["", "pulsar://another:6650"])
def test_a_consumer_that_was_let_stay_is_not_disturbed_when_its_subscription_is_bound_again(file, via):
    consumer = bound_consumer(P + "orders", "s", bound=True, via=via)
    broker = broker_of(file, consumer)
    bound = []
    for revision, policy in enumerate(["Detach", None, None, "Drain", None]):
        binding = policy and f"{{name: a, topics: [orders], lifecyclePolicy: {policy}}}"
        file.write_text(f"revision: '{revision}'\nbindings: [{binding or ''}]")
        assert not consumer.closed_for
        before = broker.bindings
        broker._load_bindings()
        broker._evict(before)
        bound.append(consumer.bound)
    assert bound[:4] == [True, False, False, True]
    assert consumer.closed_for == "the subscription is not bound to the pool any more"


WRONG_FIELDS = [
    ("topics: ['x*']", "'x*' is not a topic pattern"),
    ("topics: [], namespaces: [public]", "namespaces must be a list of TENANT/NAMESPACE"),
    ("topics: [], subscriptions: s", "subscriptions must be a list of names or regular expressions"),
    ("topics: [], subscriptions: ['s(']", "subscriptions: 's(' is no regular expression: missing )"),
    (
        r"topics: [], subscriptions: ['(a|b)-\1']",
        r"subscriptions: '(a|b)-\\1' is no regular expression: invalid escape",
    ),
    ("topics: [], fallback: writer", "fallback must be Reject or Owner, not 'writer'"),
    ("topics: [], lifecyclePolicy: [Keep]", "lifecyclePolicy must be Drain or Detach, not ['Keep']"),
    ("topics: [], dispatch: split", "dispatch must be Single or Split, not 'split'"),
    ("topics: [], placement: Cheaper", "placement must be Always or WhenCheaper, not 'Cheaper'"),
    ("topics: [], tail: [Auto]", "tail must be Auto or Bookies or Owner, not ['Auto']"),
    ("topics: [], cursors: local", "cursors must be Owner or Local, not 'local'"),
]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must be a mapping with the keys bindings, revision"),
        ("- a", "must be a mapping with the keys bindings, revision"),
        ("revision: [", "is not YAML"),
        ("revision: 0000-00-00", "is not YAML"),
        ("[" * 1100, "is not YAML"),
        ("\udcff", "is not YAML"),
        ("bindings: []", "revision must be a text"),
        ("revision: 7\nbindings: []", "revision must be a text"),
        ("revision: '7'\nbindings: {}", "bindings must be a list"),
        ("revision: '7'\nbinding: []", "unknown key 'binding'; known are bindings, revision"),
        (
            "revision: '7'\nbindings: [x]",
            "bindings[0] must be a mapping with the keys cursors, dispatch, fallback, lifecyclePolicy, name",
        ),
        ("revision: '7'\nbindings: [{name: a}]", "bindings[0] must have a name and a list of topics"),
        ("revision: '7'\nbindings: [{name: a, topics: x}]", "bindings[0] must have a name and a list of topics"),
        ("revision: '7'\nbindings: [{name: a, topics: [1]}]", "bindings[0] must have a name and a list of topics"),
        ("revision: '7'\nbindings: [{topics: []}]", "bindings[0] must have a name and a list of topics"),
        *(
            (f"revision: '7'\nbindings: [{{name: a, {fields}}}]", f"bindings[0]: {says}")
            for fields, says in WRONG_FIELDS
        ),
    ],
)
def test_a_file_that_cannot_be_used_says_which_part_and_what_would_be_right(file, text, says):
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(BindingsError) as error:
        load_bindings(file)
    assert str(error.value).startswith(f"bindings file {file}")
    assert says in str(error.value)


# The broker takes the file up again and again; the rest of a broker is not needed for that.


@pytest.fixture
def broker(file):
    made = broker_of(file, bindings=Bindings((from_patterns("topics", [P + "always"]),)))
    made._load_bindings()
    return made


def covers(broker, *names):
    return [broker.bindings.covers(parse_topic_name(P + name)) for name in names]


def test_the_file_comes_on_top_of_the_command_line(broker):
    assert broker.bindings.revision == "7"
    assert covers(broker, "always", "orders", "payments") == [True, True, False]


@pytest.mark.parametrize("damage", ["revision: [", "revision: '8'\nbindings: [{name: a, topics: ['x*']}]", None])
def test_the_last_good_bindings_stay_until_the_file_is_good_again(broker, file, caplog, damage):
    if damage is None:
        file.unlink()
    else:
        file.write_text(damage)
    for _ in range(3):
        broker._load_bindings()
    assert broker.bindings.revision == "7"
    assert covers(broker, "orders") == [True]
    assert str(file) in broker.bindings_error
    assert caplog.text.count("the last good bindings stay in force") == 1, "said once, not every second"
    file.write_text('revision: "9"')
    broker._load_bindings()
    assert (broker.bindings_error, broker.bindings.revision) == (None, "9")
