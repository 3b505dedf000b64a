"""What the plugin reads, from recorded answers: all rights, some rights, old objects, lies and bounds."""

import base64

import pytest
from readonly_engine.status.document import encode
from readonly_operator.kube.names import PoolKey
from readonly_operator.kubectl import reading
from readonly_operator.kubectl.answers import MAX_ITEMS, PAGE_ITEMS, checked, page_items
from readonly_operator.kubectl.errors import AnswerError, PluginError
from readonly_operator.kubectl.reading import Reader
from readonly_operator.kubectl.snapshot import broker_view, brokers_of, condition_of, pool_view

from tests.support.states import SMALL
from tests.unit.operator.kubectl.recorded import (
    BINDINGS,
    NAMESPACE,
    PODS,
    POOLS,
    Recorded,
    binding,
    condition,
    items,
    pod,
    pool,
    refused,
    status_path,
    well,
)

KEY = PoolKey(NAMESPACE, "orders")


def snapshot(answers, name="", query=""):
    api = Recorded(answers)
    return Reader(api, NAMESPACE, query).snapshot(name), api


def test_one_pool_needs_no_right_to_list_pools():
    answers = {**well(), POOLS: (403, refused("list", "readonlybrokerpools"))}
    found, api = snapshot(answers, "orders", "?prefix=a")
    assert [one.key for one in found.pools] == [KEY]
    assert POOLS not in api.asked
    assert api.queries[api.asked.index(status_path("orders-0"))] == {"prefix": ["a"]}


@pytest.mark.parametrize(
    ("path", "right"),
    [
        (BINDINGS, "list readonlytopicbindings.pulsar-readonly.io in namespace streaming"),
        (PODS, "list pods in namespace streaming"),
        (status_path("orders-0"), "get pods/proxy in namespace streaming"),
    ],
)
def test_a_missing_right_is_named_and_the_rest_is_shown(path, right):
    found, api = snapshot({**well(), path: (403, refused("get", "x"))})
    assert [one.text.partition(":")[0] for one in found.missing] == [right]
    assert "kubectl create role " in found.missing[0].text
    assert len(found.pools) == 1
    assert found.notes == ()
    if path == status_path("orders-0"):
        assert found.pools[0].brokers[1].observed == ()
        assert status_path("orders-1") not in api.asked, "one refusal is enough"


def test_without_the_right_to_read_pools_it_is_one_clear_error():
    answers = {POOLS: (403, refused("list", "readonlybrokerpools"))}
    with pytest.raises(PluginError, match=r"missing right: list readonlybrokerpools\.pulsar-readonly\.io in namespace"):
        snapshot(answers)
    with pytest.raises(PluginError, match=r"missing right: get readonlybrokerpools"):
        snapshot({f"{POOLS}/orders": (403, refused("get", "readonlybrokerpools"))}, "orders")


def test_a_pool_that_does_not_exist_and_a_cluster_without_the_kind_differ():
    with pytest.raises(PluginError, match=r'no ReadOnlyBrokerPool "orders" in namespace streaming'):
        snapshot({}, "orders")
    for answer in (
        b"404 page not found\n",
        {"kind": "Status", "message": "the server could not find the requested resource"},
    ):
        for name in ("", "orders"):
            path = f"{POOLS}/{name}" if name else POOLS
            with pytest.raises(PluginError, match="does not serve readonlybrokerpools"):
                snapshot({path: (404, answer)}, name)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((502, {"kind": "Status", "message": "dial tcp\x1b: refused"}), "dial tcp\\x1b: refused"),
        ((503, {"kind": "Status", "message": "no route to host"}), "no route to host"),
        ((503, {"reason": "This broker makes other status pages now"}), "makes other status pages"),
        ((200, b"<html>"), "the answer is no JSON: <html>"),
        ((200, b"[" * 100_000), "the answer is no JSON"),
        ((200, {"topics": 1}), "topics must be a list"),
        (AnswerError("no answer within 5 s"), "no answer within 5 s"),
    ],
)
def test_a_broker_without_an_answer_has_the_reason(answer, error):
    found, _ = snapshot({**well(), status_path("orders-0"): answer})
    first, second = found.pools[0].brokers
    assert first.observed[0].status is None
    assert error in first.observed[0].error
    assert second.observed[0].status == SMALL
    assert found.missing == ()


def test_each_worker_is_asked_at_its_own_port():
    answers = {**well(), PODS: (200, items(pod("orders-0", workers=2)))}
    answers |= {status_path("orders-0", port): well()[status_path("orders-0")] for port in (8180, 8280)}
    found, api = snapshot(answers)
    assert [one.url for one in found.pools[0].brokers[0].observed] == ["orders-0 worker 0", "orders-0 worker 1"]
    assert status_path("orders-0") not in api.asked


def test_a_broker_that_does_not_run_is_not_asked():
    found, api = snapshot({**well(), PODS: (200, items(pod("orders-0", ready=False)))})
    (broker,) = found.pools[0].brokers
    assert (broker.ready, broker.observed, broker.restarts) == (False, (), 6)
    assert "CrashLoopBackOff (metadata-store-url: zk:zookeeper:2181 does not answer)" in broker.problem
    assert status_path("orders-0") not in api.asked


def test_a_label_alone_makes_no_broker():
    liar = pod("evil-0")
    foreign = pod("orders-7")
    foreign["metadata"]["ownerReferences"] = [{"kind": "StatefulSet", "name": "orders", "controller": False}]
    nobodys = pod("orders-8")
    del nobodys["metadata"]["ownerReferences"]
    other = pod("orders-9", pool_name="others")
    assert brokers_of(KEY, [liar, foreign, nobodys, other, pod("orders-10"), pod("orders-2")]) == [
        pod("orders-2"),
        pod("orders-10"),
    ]


def test_objects_without_a_status_or_with_another_shape_are_shown():
    body = pool()
    del body["status"]
    body["metadata"].pop("generation")
    found = pool_view(body)
    assert (found.conditions, found.bindings_allowed) == ((), None)
    odd = {
        "metadata": {"name": "a", "namespace": "b"},
        "spec": None,
        "status": {"conditions": [None, {"type": "Ready"}]},
    }
    assert condition_of(pool_view(odd).conditions, "Ready").status == "Unknown"
    assert broker_view({"metadata": {"name": "orders-0"}}).problem == "Pending"


def test_conditions_of_an_older_spec_are_marked():
    body = pool()
    body["status"]["conditions"] = [condition("Ready", "True", "BrokersReady", generation=2)]
    assert condition_of(pool_view(body).conditions, "Ready").outdated


def test_the_connection_in_use_is_that_of_the_status():
    body = pool()
    body["status"]["source"] = {"spec": {"serviceUrl": "pulsar://user:secret@used:6650"}}
    assert pool_view(body).service_url == "pulsar://used:6650"


def test_bindings_of_other_pools_are_apart_and_foreign_ones_are_counted():
    body = pool()
    body["status"]["bindings"] = 3
    far = binding("far", {"name": "orders", "namespace": "elsewhere"})
    found, _ = snapshot({**well(), POOLS: (200, items(body)), BINDINGS: (200, items(binding(), far))})
    assert [one.name for one in found.pools[0].bindings] == ["clicks"]
    assert [one.name for one in found.loose] == ["far"]
    assert found.notes == ("bindings of other namespaces are not listed; BINDINGS of a pool counts them",)


def test_lists_are_read_in_pages_up_to_a_bound():
    def pages(count):
        return [
            (200, items(*[binding(f"b-{page}-{one}") for one in range(PAGE_ITEMS)], token="t")) for page in range(count)
        ]

    assert MAX_ITEMS % PAGE_ITEMS == 0
    full = MAX_ITEMS // PAGE_ITEMS
    last = [(200, items(binding("last")))]
    found, api = snapshot({**well(), BINDINGS: pages(full - 1) + last})
    assert len(found.pools[0].bindings) == MAX_ITEMS - PAGE_ITEMS + 1
    assert not any("only the first" in note for note in found.notes)
    assert [query.get("continue") for path, query in zip(api.asked, api.queries, strict=True) if path == BINDINGS][
        :2
    ] == [
        None,
        ["t"],
    ]
    found, _ = snapshot({**well(), BINDINGS: pages(full + 5)})
    assert len(found.pools[0].bindings) == MAX_ITEMS
    assert f"only the first {MAX_ITEMS:,} readonlytopicbindings were read" in found.notes
    found, _ = snapshot({**well(), BINDINGS: [(200, items(token="t"))]})
    assert found.pools[0].bindings == (), "a page without objects ends the list, whatever its token"


def test_only_so_many_brokers_are_asked(monkeypatch):
    monkeypatch.setattr(reading, "MAX_QUERIED", 3)
    pods = [pod(f"orders-{one}") for one in range(4)]
    answers = {**well(), **{status_path(f"orders-{one}"): well()[status_path("orders-0")] for one in range(4)}}
    found, api = snapshot({**answers, PODS: (200, items(*pods[:3]))})
    assert found.notes == ()
    found, api = snapshot({**answers, PODS: (200, items(*pods))})
    assert status_path("orders-3") not in api.asked
    assert found.notes == ("the first 3 of 4 broker processes were asked",)


def test_the_only_pool_needs_no_name_and_several_do():
    api = Recorded({POOLS: (200, items(pool()))})
    assert Reader(api, NAMESPACE).only_pool().key == KEY
    api = Recorded({POOLS: (200, items(pool("b"), pool("a")))})
    with pytest.raises(PluginError, match="several pools, name one of them: a, b"):
        Reader(api, NAMESPACE).only_pool()
    with pytest.raises(PluginError, match="namespace streaming has no ReadOnlyBrokerPool"):
        Reader(Recorded({POOLS: (200, items())}), NAMESPACE).only_pool()


def test_top_says_which_right_is_missing_and_which_broker_does_not_run():
    answers = well()
    reader = Reader(Recorded(answers), NAMESPACE)
    views = [broker_view(pod("orders-0")), broker_view(pod("orders-1", ready=False))]
    first, second = reader.observe(views)
    assert (first.status, second.status) == (SMALL, None)
    assert "CrashLoopBackOff" in second.error
    answers[status_path("orders-0")] = (403, refused("get", "pods/proxy"))
    with pytest.raises(PluginError, match="missing right: get pods/proxy in namespace streaming"):
        Reader(Recorded(answers), NAMESPACE).observe(views)
    with pytest.raises(PluginError, match="missing right: list pods"):
        Reader(Recorded({PODS: (403, refused("list", "pods"))}), NAMESPACE).brokers(KEY)


def test_a_refusal_is_one_bounded_line():
    with pytest.raises(AnswerError) as raised:
        checked(500, b"a\n\x1b[2J" + b"x" * 100_000)
    assert len(str(raised.value)) <= 520
    assert "\x1b" not in str(raised.value)
    with pytest.raises(AnswerError, match="no object of Kubernetes"):
        checked(200, b"[]")
    assert page_items({"items": [1, {"a": 1}]}) == ([{"a": 1}], "")


def secured(name):
    """A broker whose HTTP port has TLS and a token."""
    made = pod(name)
    made["spec"]["containers"][0]["readinessProbe"] = {
        "httpGet": {"path": "/readyz", "port": "http", "scheme": "HTTPS"}
    }
    made["spec"]["volumes"] = [
        {
            "name": "pulsar-readonly-http-token",
            "secret": {"secretName": "figures", "items": [{"key": "jwt", "path": "token"}]},
        }
    ]
    return made


SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/figures"


def test_a_port_with_tls_and_a_token_is_read_with_the_token_that_the_user_may_read():
    answers = well() | {
        PODS: (200, items(secured("orders-0"), pod("orders-1"))),
        f"{PODS}/https:orders-0:8080/proxy/status": (200, encode(SMALL)),
        SECRET: (200, {"kind": "Secret", "data": {"jwt": base64.b64encode(b"abc\n").decode()}}),
    }
    api = Recorded(answers)
    (shown,) = Reader(api, NAMESPACE).snapshot("").pools
    assert [one.observed[0].status is not None for one in shown.brokers] == [True, True]
    sent = {path: headers for path, headers in zip(api.asked, api.headers, strict=True) if headers}
    assert sent == {f"{PODS}/https:orders-0:8080/proxy/status": {"X-Pulsar-Readonly-Token": "abc"}}


def test_a_user_who_may_not_read_the_token_is_told_the_right():
    answers = well() | {
        PODS: (200, items(secured("orders-0"))),
        f"{PODS}/https:orders-0:8080/proxy/status": (401, b"this path needs the token"),
        SECRET: (403, refused("get", "secrets")),
    }
    snapshot = Reader(Recorded(answers), NAMESPACE).snapshot("")
    (right,) = snapshot.missing
    assert right.command == "kubectl create role get-secrets -n streaming --verb=get --resource=secrets"
    assert "whose HTTP port needs the token of Secret figures; the role edit of Kubernetes has it" in right.text
    (shown,) = snapshot.pools
    assert shown.brokers[0].observed[0].error.endswith("this path needs the token")
