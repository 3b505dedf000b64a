"""Health of pools, bindings and sources for Argo CD and Flux: their checks and kstatus agree, also in the middle of a rollout."""

import datetime as dt

import cel
import lupa
import pytest
from readonly_operator.api.crds import DEFINITIONS
from readonly_operator.api.status import NO_STATUS
from readonly_operator.kube.names import GROUP, VERSION
from readonly_operator.kube.status import STALLED_REASONS, Condition, ConditionStatus, complete, keep, paused, render

from tests.support.kstatus import kstatus
from tests.support.yaml_documents import load_all_yaml, load_yaml
from tests.unit.delivery.conftest import ROOT

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
KINDS = [one.kind.kind for one in DEFINITIONS]
CONFIG_MAP = load_yaml((ROOT / "examples" / "argocd-health.yaml").read_text())
EXPRESSIONS = {
    one["kind"]: one
    for body in load_all_yaml((ROOT / "examples" / "flux-kustomization.yaml").read_text())
    for one in body["spec"].get("healthCheckExprs", ())
}
ARGO = {"Current": "Healthy", "InProgress": "Progressing", "Failed": "Degraded"}


def condition(kind: str, value: bool, reason: str = "Because") -> Condition:
    return Condition(kind, ConditionStatus.TRUE if value else ConditionStatus.FALSE, reason, f"{kind} {reason}")


def status(generation: int, *conditions: Condition) -> dict:
    return render(NO_STATUS, generation, complete(conditions), {}, NOON)


SETTLED = status(2, condition("Ready", True), condition("Progressing", False))
STATES = {
    "created": (dict(NO_STATUS), "InProgress"),
    "changed": (status(1, condition("Ready", True), condition("Progressing", False)), "InProgress"),
    "brokers start": (status(2, condition("Ready", False), condition("Progressing", True)), "InProgress"),
    "the rollout waits for other pools": (
        status(2, condition("Ready", True), condition("Progressing", True, "WaitsForPools")),
        "InProgress",
    ),
    "a broker lacks the binding": (
        status(2, condition("Ready", True), condition("Progressing", True, "BrokersBehind")),
        "InProgress",
    ),
    "no pool": (status(2, condition("Ready", False, "PoolNotFound"), condition("Progressing", False)), "InProgress"),
    "settled": (SETTLED, "Current"),
    **{
        reason: (status(2, condition("Ready", False, reason), condition("Progressing", True)), "Failed")
        for reason in sorted(STALLED_REASONS)
    },
    "changed after a failure": (status(1, condition("Ready", False, "InvalidSpec")), "InProgress"),
}


def body_of(state: dict) -> dict:
    return {"metadata": {"name": "demo", "generation": 2}, "spec": {}, "status": state}


def flux(expressions: dict, body: dict) -> str:
    """The order in which Flux evaluates them."""
    for name, result in (("inProgress", "InProgress"), ("failed", "Failed"), ("current", "Current")):
        if cel.evaluate(expressions[name], body):
            return result
    return "InProgress"


def argo(kind: str, body: dict) -> dict:
    """What the health check of a kind returns, by Lua without its libraries, as Argo CD runs it."""
    runtime = lupa.LuaRuntime()
    runtime.execute("string = nil; io = nil; os = nil")
    check = runtime.eval(f"function(obj) {CONFIG_MAP['data'][f'resource.customizations.health.{GROUP}_{kind}']} end")
    return dict(check(runtime.table_from(body, recursive=True)))


@pytest.mark.parametrize("state", STATES)
def test_kstatus_argo_cd_and_flux_agree(state):
    made, expected = STATES[state]
    body = body_of(made)
    assert kstatus(body) == expected
    for kind in KINDS:
        assert flux(EXPRESSIONS[kind], body) == expected
        found = argo(kind, body)
        assert found["status"] == ARGO[expected]
        assert found["message"], "it is shown to people"


@pytest.mark.parametrize("kind", KINDS)
def test_objects_from_before_the_default_are_not_taken_for_healthy_by_argo_cd(kind):
    body = {"metadata": {"generation": 1}, "spec": {}}
    found = argo(kind, body)
    assert found["status"] == "Progressing"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", ["created", "brokers start", "settled", "InvalidSpec"])
def test_a_paused_object_is_suspended_and_never_finished_by_the_pause(kind, state):
    before = STATES[state][0]
    body = body_of(keep(before, 2, paused(before, "an annotation pauses it"), NOON))
    found = argo(kind, body)
    assert found == {"status": "Suspended", "message": "an annotation pauses it"}
    assert (kstatus(body) == "Current") == (state == "settled")


def test_every_kind_has_its_checks_and_no_other_key_is_taken():
    assert set(CONFIG_MAP["data"]) == {f"resource.customizations.health.{GROUP}_{kind}" for kind in KINDS}
    assert len(set(CONFIG_MAP["data"].values())) == 1
    assert set(EXPRESSIONS) == set(KINDS)
    assert {one["apiVersion"] for one in EXPRESSIONS.values()} == {f"{GROUP}/{VERSION}"}


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: one.kind.plural)
def test_the_api_server_gives_a_new_object_a_status_that_tools_wait_for(definition):
    for version in definition.manifest()["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]["properties"]["status"]
        assert schema["default"] == {"observedGeneration": -1}
        assert schema["properties"]["observedGeneration"]["minimum"] <= -1
        assert "required" not in schema
    assert kstatus(body_of(NO_STATUS)) == "InProgress"
    assert kstatus({"metadata": {"generation": 1}}) == "Current", "why the default exists"


def test_reconciling_and_stalled_are_there_only_while_they_hold_and_never_together():
    kinds = [{one["type"] for one in made.get("conditions", ())} for made, _ in STATES.values()]
    assert not any({"Reconciling", "Stalled"} <= one for one in kinds)
    assert "Reconciling" not in {one["type"] for one in SETTLED["conditions"]}
