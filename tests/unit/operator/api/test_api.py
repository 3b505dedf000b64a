"""Specs as typed values, and what a spec that cannot be used says."""

import pytest
from readonly_operator.api.binding import Binding
from readonly_operator.api.pool import Pool
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.model.lookup import Entry, LookupConfig, entries_of


def test_a_slash_after_the_admin_url_is_dropped(pool_body):
    body = pool_body()
    body["spec"]["source"]["adminUrl"] = "https://admin:8443/"
    assert Pool.load(body).source.admin_url == "https://admin:8443"


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("10ms", 10), ("200ms", 200), ("1s", 1000), ("90s", 90000), ("9999s", 9999000)]
)
def test_intervals(pool_body, text, milliseconds):
    assert Pool.load(pool_body(explicitLac={"interval": text})).explicit_lac.interval_ms == milliseconds


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"source": None}, "spec must have either source or sourceRef: say which source cluster"),
        ({"source": {}}, "spec.source.serviceUrl is missing"),
        ({"sourceRef": {"name": "pulsar"}}, "spec must have either source or sourceRef, and not both"),
        ({"source": None, "sourceRef": {}}, "spec.sourceRef.name is missing"),
        ({"source": None, "sourceRef": {"name": "pulsar"}}, "spec.sourceRef: ReadOnlySource pulsar has not been read"),
        ({"source": {"serviceUrl": 5}}, "spec.source.serviceUrl must be a string, not int"),
        ({"source": "pulsar://a"}, "spec.source must be an object, not str"),
        ({"replicas": True}, "spec.replicas must be a whole number from 0 to 1000, not True"),
    ],
)
def test_a_pool_that_cannot_be_used_names_the_field(pool_body, spec, message):
    with pytest.raises(ApiSpecError) as caught:
        Pool.load(pool_body(**spec))
    assert str(caught.value).startswith(message)


def test_topics_are_sorted_and_each_once(binding_body):
    binding = Binding.load(binding_body(topics=["persistent://a/b/z", "persistent://a/b/c", "persistent://a/b/z"]))
    assert binding.topics == ("persistent://a/b/c", "persistent://a/b/z")
    assert binding.full_name == "team/orders"


@pytest.mark.parametrize(
    "topic",
    [
        "persistent://public/default/orders",
        "persistent://public/default/orders-partition-3",
        "persistent://public/default/orders-.*",
        "persistent://a.b-c/d=e:f%25/(x|y)[0-9]{2}",
    ],
)
def test_topics_that_are_fine(binding_body, topic):
    assert Binding.load(binding_body(topics=[topic])).topics == (topic,)


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ("persistent://a/b/c", "spec.topics must be a list, not str"),
        (["persistent://a/b/c d"], "spec.topics[0] must be persistent://TENANT/NAMESPACE/TOPIC"),
        (["persistent://a/b/c/d"], "spec.topics[0] must be persistent://TENANT/NAMESPACE/TOPIC"),
        ([7], "spec.topics[0] must be a string, not int"),
        (["persistent://a/b/c("], "spec.topics[0] 'persistent://a/b/c(' is no regular expression: missing ): "),
        (
            ["persistent://a/b/(?!c).*"],
            "spec.topics[0] 'persistent://a/b/(?!c).*' is no regular expression: invalid perl operator: (?!; it must be in RE2",
        ),
    ],
)
def test_a_binding_that_cannot_be_used_names_the_field(binding_body, topics, message):
    body = binding_body()
    body["spec"]["topics"] = topics
    with pytest.raises(ApiSpecError) as caught:
        Binding.load(body)
    assert str(caught.value).startswith(message)


def test_a_binding_with_everything(binding_body):
    body = binding_body()
    body["spec"] |= {
        "namespaces": ["shop/eu", "a/b"],
        "subscriptions": ["ml-.*", "audit"],
        "cursors": "Local",
        "onDeletion": "Release",
        "fallback": "Owner",
        "lifecyclePolicy": "Detach",
        "tail": "Auto",
        "dispatch": "Split",
        "placement": "WhenCheaper",
    }
    body["metadata"] |= {
        "annotations": {"pulsar-readonly.io/paused": "true"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    binding = Binding.load(body)
    assert (binding.namespaces, binding.subscriptions) == (("a/b", "shop/eu"), ("audit", "ml-.*"))
    assert (binding.fallback, binding.lifecycle, binding.tail, binding.paused) == ("Owner", "Detach", "Auto", True)
    assert (binding.cursors, binding.on_deletion, binding.releases) == ("Local", "Release", True)
    assert Entry.parse(Entry.of(binding).document()) == Entry.of(binding)
    assert [Entry.of(binding).document()[key] for key in ("cursors", "dispatch", "placement")] == [
        "Local",
        "Split",
        "WhenCheaper",
    ]
    plain = Binding.load(binding_body())
    assert (plain.fallback, plain.lifecycle, plain.paused) == ("Reject", "Drain", False)
    assert (plain.cursors, plain.on_deletion, plain.releases) == ("", "Keep", False)
    assert Entry.of(plain).document().keys() == {"name", "topics"}, "older brokers know no more"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("topics", None, "spec.topics or spec.namespaces must name at least one topic or namespace"),
        (
            "subscriptions",
            [r"(a|b)-\1"],
            r"spec.subscriptions[0] '(a|b)-\\1' is no regular expression: invalid escape sequence: \1; it must be in RE2 syntax",
        ),
        (
            "subscriptions",
            [r"[\pL\pN]{1000}"],
            "spec.subscriptions[0] '[\\\\pL\\\\pN]{1000}' is no regular expression: pattern too",
        ),
    ],
)
def test_fields_of_a_binding_that_cannot_be_used(binding_body, field, value, message):
    body = binding_body()
    body["spec"][field] = value
    with pytest.raises(ApiSpecError) as caught:
        Binding.load(body)
    assert str(caught.value).startswith(message)


def test_what_brokers_were_told_can_be_read_back(make_binding):
    config = LookupConfig.of([make_binding("a"), make_binding("b", "persistent://public/default/x.*")])
    assert entries_of(config.yaml()) == {entry.name: entry for entry in config.bindings}
    assert entries_of("") == entries_of("[") == entries_of("bindings: [{name: a}]") == entries_of("bindings: 7") == {}


def test_a_spec_that_was_read_before_is_not_read_again_and_never_mixed_up():
    def body(kind, name, spec):
        return {"kind": kind, "metadata": {"name": name, "namespace": "n", "uid": name, "generation": 1}, "spec": spec}

    source = {"serviceUrl": "pulsar://a:1", "adminUrl": "http://a:1", "metadataStoreUrl": "zk:a:1"}
    one, other = (Pool.load(body("ReadOnlyBrokerPool", name, {"source": dict(source)})) for name in ("a", "b"))
    assert one.cache is other.cache
    assert (one.key.name, other.key.name) == ("a", "b")
    assert Pool.load(body("ReadOnlyBrokerPool", "a", {"source": source, "replicas": 5})).replicas == 5
    assert one.replicas == 2
    spec = {"poolRef": {"name": "a"}, "topics": ["persistent://t/n/x"]}
    made = Binding.load(body("ReadOnlyTopicBinding", "a", spec))
    spec["topics"].append("persistent://t/n/y")
    assert made.topics == ("persistent://t/n/x",)
    assert len(Binding.load(body("ReadOnlyTopicBinding", "a", spec)).topics) == 2
    with pytest.raises(ApiSpecError, match=r"spec\.topics or spec\.namespaces"):
        Binding.load(body("ReadOnlyTopicBinding", "a", {"poolRef": {"name": "a"}}))
