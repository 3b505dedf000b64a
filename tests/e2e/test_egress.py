"""Connections that brokers may open, as the API server stores the policy. A network plug-in that enforces it also tests it."""

import pytest

pytestmark = pytest.mark.nightly

READY = {"Ready": ("True", "BrokersReady"), "Progressing": ("False", "Settled")}
BOOKIES = {"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "pulsar"}}}]}


def test_brokers_serve_under_an_egress_policy_that_comes_and_goes(
    operator, writer, namespace, pool, binding, eventually
):
    operator.apply(pool(replicas=2, networkPolicy={"egress": {"bookies": BOOKIES}}))
    operator.apply(binding("orders", "persistent://public/default/orders"))
    operator.expect("robp", "demo", namespace, READY, timeout=180)
    operator.expect("rotb", "orders", namespace, {"Ready": ("True", "Held")}, timeout=60)
    spec = operator.get("networkpolicy", "demo", namespace)["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    bookies = next(rule for rule in spec["egress"] if rule["ports"][0]["port"] == 3181)
    assert bookies["to"] == BOOKIES["to"]

    operator.apply(pool(replicas=2, networkPolicy={}))

    def gone():
        after = operator.get("networkpolicy", "demo", namespace)["spec"]
        assert (after["policyTypes"], after.get("egress")) == (["Ingress"], None)

    eventually(gone)
