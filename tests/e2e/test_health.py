"""Health by the library kstatus itself, before the operator's first report, and of Argo CD's settings."""

import json

import yaml

from tests.e2e.install import ROOT
from tests.e2e.kstatus_program import compute
from tests.shell_blocks.running import Shell, find
from tests.support.yaml_documents import load_yaml


def test_a_new_object_is_in_progress_before_the_first_report(operator, namespace, pool, binding):
    for body in (pool(), binding("orders", "persistent://public/default/orders")):
        made = json.loads(operator("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(body)))
        assert made["status"] == {"observedGeneration": -1}
        assert set(compute(made).values()) == {"InProgress"}


def test_the_health_check_leaves_other_settings_of_argo_cd(operator, namespace, tmp_path):
    """Server-side apply removes what an earlier client-side apply has set, whoever the field manager is."""
    page = "how-to/gitops.md"
    config = load_yaml((ROOT / "examples" / "argocd-health.yaml").read_text())
    config["metadata"]["namespace"] = namespace
    before = {**config, "data": {"url": "https://argocd.example.org"}}
    operator("apply", "-f", "-", stdin=json.dumps(before))
    names = {"-n argocd": f"-n {namespace}", "examples/argocd-health.yaml": "argocd-health.yaml"}
    shell = Shell(tmp_path, {"kubectl": (operator._kubectl,)}, names, {"KUBECONFIG": operator.kubeconfig})
    (tmp_path / "argocd-health.yaml").write_text(yaml.safe_dump(config))
    shell.run(find(page, "kubectl patch configmap argocd-cm"))
    found = operator.get("configmap", "argocd-cm", namespace)["data"]
    assert found == {**before["data"], **config["data"]}
