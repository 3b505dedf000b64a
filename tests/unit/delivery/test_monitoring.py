"""Dashboard and alerts name metrics and labels that exist, and the alerts are raised when they should be."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from devstack.kube import programs
from docsite.dashboard import model, names, rows
from docsite.metrics import OTHERS, labels, of_broker, of_operator, of_process
from tests.support.yaml_documents import load_yaml
from tests.unit.delivery.conftest import ROOT, run, template_run

FOLDER = ROOT / "monitoring"
OF_SCRAPES = {"namespace", "pool", "pod", "le"}
"""Labels that Prometheus adds, as docs/how-to/monitoring.md says, and those of histograms."""
SAMPLES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_count", "_sum"),
    "summary": ("_count", "_sum"),
}


def dashboard() -> dict:
    return json.loads((FOLDER / "grafana-dashboard.json").read_text())


def rules() -> list[dict]:
    groups = load_yaml((FOLDER / "rules.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> list[tuple[str, str]]:
    """Every expression, with the name of the panel or alert."""
    found = [(rule["alert"], rule["expr"]) for rule in rules()]
    for panel in dashboard()["panels"]:
        found += [(panel["title"], target["expr"]) for target in panel.get("targets", ())]
    return found


KEYWORDS = {"and", "or", "unless", "bool", "offset"}


def metrics_in(expression: str) -> set[str]:
    """The metrics that an expression names."""
    bare = re.sub(
        r"\{[^}]*\}|\[[^\]]*\]|\b(?:by|on|ignoring|group_left|group_right|without) *\([^)]*\)", " ", expression
    )
    return set(re.findall(r"(?<![\w:$])[A-Za-z_][\w:]*(?![\w:]* *\()", bare)) - KEYWORDS


EXPRESSIONS = [pytest.param(text, id=f"{name}-{index}") for index, (name, text) in enumerate(expressions())]


@pytest.fixture(scope="module")
def metrics() -> dict[str, set[str]]:
    """The labels of every sample that brokers and operator serve, by its name."""
    families = (*of_broker(), *of_operator(), *of_process())
    found = {f"{one.name}{end}": set(labels(one)) for one in families for end in SAMPLES[one.type]}
    return found | {name: set(given) for name, _, given, _, _ in OTHERS}


@pytest.fixture(scope="session")
def promtool():
    path = str(programs.find("promtool", programs.PROMTOOL))
    return lambda *arguments: run(path, *arguments)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_exists_and_has_these_labels(metrics, expression):
    named = metrics_in(expression)
    assert named
    assert named <= set(metrics)
    grouped = {label.strip() for part in re.findall(r"by \(([^)]*)\)", expression) for label in part.split(",")}
    matched = set(re.findall(r'(\w+)(?:=|=~|!=|!~)"', expression))
    allowed = OF_SCRAPES | {label for name in named for label in metrics[name]}
    assert grouped | matched <= allowed


def test_every_metric_is_shown(metrics):
    shown = {name for _, text in expressions() for name in re.findall(r"pulsar_readonly_\w+", text)}
    ends = ("_sum", "_count", "_bucket")
    assert {name for name in metrics if name.startswith("pulsar_") and not name.endswith(ends)} - shown == set()


class Families(Collector):
    """Metrics that were collected before."""

    def __init__(self, families):
        self._families = families

    def collect(self):
        return self._families


@pytest.mark.parametrize("collect", [of_broker, of_operator])
def test_promtool_finds_no_fault_with_names_and_texts(collect):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(collect()))
    text = generate_latest(registry)
    path = str(programs.find("promtool", programs.PROMTOOL))
    done = subprocess.run([path, "check", "metrics"], input=text, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")


def test_the_alerts_are_raised_when_they_should_be(promtool):
    done = promtool("test", "rules", str(FOLDER / "rules-test.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tried():
    tests = load_yaml((FOLDER / "rules-test.yaml").read_text())["tests"]
    raised = {case["alertname"] for test in tests for case in test.get("alert_rule_test", ()) if case.get("exp_alerts")}
    assert raised == {rule["alert"] for rule in rules()}


def test_every_expression_of_the_dashboard_can_be_parsed(promtool, tmp_path):
    texts = [
        text.replace("$__rate_interval", "5m")
        for panel in dashboard()["panels"]
        for text in (target["expr"] for target in panel.get("targets", ()))
    ]
    records = [
        {"record": f"panel:expression:{index}".replace(":", "_"), "expr": text} for index, text in enumerate(texts)
    ]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]}))
    done = promtool("check", "rules", "--lint=none", str(file))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_is_what_the_code_gives():
    assert (FOLDER / "grafana-dashboard.json").read_text() == rows.text(), "run: make docs-pages chart"


def test_each_name_in_the_list_exists_and_is_shown(metrics):
    """So a metric that gets another name changes one line, and no line stays behind."""
    listed = {value for key, value in vars(names).items() if key.isupper() and key != "ALERT_PREFIX"}
    known = set(metrics) | {name.removesuffix("_bucket") for name in metrics if name.endswith("_bucket")}
    assert listed <= known
    text = (FOLDER / "grafana-dashboard.json").read_text()
    assert {name for name in listed if name not in text} == set()
    source = Path(rows.__file__).read_text() + Path(model.__file__).read_text()
    assert re.findall(r"pulsar_readonly_\w+|process_\w+_|container_\w+_", source) == []


def test_panels_say_what_they_show_and_do_not_overlap():
    taken: set[tuple[int, int]] = set()
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["description"], panel["title"]
    assert len({panel["title"] for panel in panels}) == len(panels)


def test_queries_are_of_the_brokers_of_the_chosen_pools():
    found = dashboard()
    brokers = (*of_broker(), *of_process())
    own = {f"{one.name}{end}" for one in brokers for end in SAMPLES[one.type]}
    for panel in found["panels"]:
        for target in panel.get("targets", ()):
            for name, given in re.findall(r"(\w+)\{([^}]*)\}", target["expr"]):
                if name in own:
                    assert given.startswith(model.BROKER), panel["title"]
                if name.startswith("process_"):
                    assert model.ANY_POOL in given, "other programs have this metric too"
                if name.startswith("container_"):
                    assert "and on (namespace, pod) max by (namespace, pod) (pulsar_readonly_" in target["expr"]


def colours(value) -> set[str]:
    """The colours that a part of the dashboard names."""
    if isinstance(value, list):
        return {colour for one in value for colour in colours(one)}
    if not isinstance(value, dict):
        return set()
    named = {one for key, one in value.items() if key in {"color", "fixedColor"} and isinstance(one, str)}
    return named | {colour for one in value.values() for colour in colours(one)}


def test_states_of_alerts_have_one_colour_each():
    assert {rule["labels"]["severity"] for rule in rules()} | {"ok"} == set(model.STATES)
    assert len(set(model.STATES.values())) == len(model.STATES)
    assert colours(dashboard()["panels"]) <= set(model.STATES.values())
    (alerts,) = (panel for panel in dashboard()["panels"] if panel["title"] == "Firing alerts")
    shown = {
        override["matcher"]["options"]: override["properties"][0]["value"]["fixedColor"]
        for override in alerts["fieldConfig"]["overrides"]
    }
    assert shown == {f"/^{severity}:/": colour for severity, colour in model.STATES.items()}
    assert all(rule["alert"].startswith(names.ALERT_PREFIX) for rule in rules())


@pytest.mark.parametrize(
    "panel", [one for row in rows.rows() for one in row.panels if one.alert], ids=lambda one: one.title
)
def test_a_panel_has_the_colour_of_its_alert(panel):
    """A panel whose metrics have an alert of this severity."""
    (made,) = (one for one in dashboard()["panels"] if one["title"] == panel.title)
    steps = made["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [step["color"] for step in steps] == [model.STATES["ok"], model.STATES[panel.alert]]
    assert steps[1]["value"] == panel.limit
    shown = {name for target in made["targets"] for name in metrics_in(target["expr"])}
    severities = {rule["labels"]["severity"] for rule in rules() if metrics_in(rule["expr"]) & shown}
    assert panel.alert in severities | (
        {"warning"} if any(name.startswith(("process_", "container_")) for name in shown) else set()
    )


def test_variables_are_declared():
    text = (FOLDER / "grafana-dashboard.json").read_text()
    declared = {variable["name"] for variable in dashboard()["templating"]["list"]}
    assert set(re.findall(r"\$\{?([a-z]+)", text)) <= declared


def test_the_chart_embeds_them(template):
    objects = template("monitoring.rules.enabled=true", "monitoring.dashboard.enabled=true")
    made = {one["kind"]: one for one in objects}
    assert made["PrometheusRule"]["spec"] == load_yaml((FOLDER / "rules.yaml").read_text())
    embedded = next(one for one in objects if one["metadata"]["name"] == "pulsar-readonly-dashboard")
    assert json.loads(embedded["data"]["pulsar-readonly.json"]) == dashboard()
    assert embedded["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_the_operators_own_pod_monitor(template):
    made = {
        one["kind"]: one for one in template("monitoring.podMonitor.enabled=true", "monitoring.podMonitor.labels.a=b")
    }
    monitor = made["PodMonitor"]
    ports = made["Deployment"]["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert monitor["metadata"]["labels"]["a"] == "b"
    assert {one["port"] for one in monitor["spec"]["podMetricsEndpoints"]} <= {port["name"] for port in ports}
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    assert selected <= made["Deployment"]["spec"]["template"]["metadata"]["labels"].items()


def test_every_alert_is_in_the_documentation():
    text = (ROOT / "docs" / "how-to" / "monitoring.md").read_text()
    for rule in rules():
        assert rule["alert"] in text or rule["alert"].replace("PulsarReadonly", "...") in text, rule["alert"]
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}


def test_every_alert_has_a_runbook_of_its_own():
    text = (ROOT / "docs" / "how-to" / "runbooks.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert sorted(sections) == sorted(rule["alert"] for rule in rules())
    for rule in rules():
        assert rule["annotations"]["runbook_url"] == f"how-to/runbooks.html#{rule['alert'].lower()}"
        for word in ("Effect", "Check", "Remedy"):
            assert f"**{word}.**" in sections[rule["alert"]], (rule["alert"], word)


def test_runbooks_name_metrics_that_exist(metrics):
    text = (ROOT / "docs" / "how-to" / "runbooks.md").read_text()
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in metrics}
    assert set(re.findall(r"pulsar_readonly_\w+", text)) <= families


def test_the_chart_puts_the_site_of_the_documentation_in_front_of_runbooks(template):
    site = "https://docs.example.com/latest/"
    objects = template("monitoring.rules.enabled=true", f"monitoring.rules.runbookUrl={site}")
    made = next(one for one in objects if one["kind"] == "PrometheusRule")
    found = [rule for group in made["spec"]["groups"] for rule in group["rules"]]
    assert len(found) == len(rules())
    for rule in found:
        assert rule["annotations"]["runbook_url"] == f"{site}how-to/runbooks.html#{rule['alert'].lower()}"


@pytest.mark.parametrize("value", ["docs.example.com/", "https://docs.example.com", "https://a b/", "https://x/#y/"])
def test_the_chart_refuses_a_site_that_gives_no_link(helm, value):
    done = template_run(helm, "monitoring.rules.enabled=true", f"monitoring.rules.runbookUrl={value}")
    assert done.returncode != 0
    assert "runbookUrl" in done.stderr
