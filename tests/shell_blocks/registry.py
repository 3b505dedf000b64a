"""What becomes of each block of commands in the documentation: run here, run on a cluster, or not run, and why.

A page has a row for each of its blocks: the beginning of the block's first line, and one of these:

- `local(TEXT)`: tests/unit/docs/test_shell_blocks.py runs it without any server; its output has the text.
- `cluster(TEST)`: the test runs it on a real Pulsar or Kubernetes.
- `not_run(REASON)`: nothing runs it. Options, paths and names in it are checked all the same (checks.py).
- `no_commands(KIND)`: it is output, YAML or commands of another program's own shell.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Outcome(StrEnum):
    """What becomes of a block."""

    LOCAL = "run without a server"
    CLUSTER = "run on a cluster"
    NOT_RUN = "not run"
    NO_COMMANDS = "no commands"


@dataclass(frozen=True, slots=True)
class Treatment:
    """What becomes of one block.

    Attributes:
        outcome: what becomes of it.
        note: text of its output, FILE::TEST, the reason, or the kind of text.
    """

    outcome: Outcome
    note: str


def local(text: str) -> Treatment:
    """Return the row of a block that runs without a server."""
    return Treatment(Outcome.LOCAL, text)


def cluster(test: str) -> Treatment:
    """Return the row of a block that a test runs on a cluster."""
    return Treatment(Outcome.CLUSTER, test)


def not_run(reason: str) -> Treatment:
    """Return the row of a block that nothing runs."""
    return Treatment(Outcome.NOT_RUN, reason)


def no_commands(kind: str) -> Treatment:
    """Return the row of a block that has no commands."""
    return Treatment(Outcome.NO_COMMANDS, kind)


PULSAR: Final = "tests/integration/tools/test_shell_blocks.py"
KUBERNETES: Final = "tests/e2e/test_shell_blocks.py"
PLUGIN: Final = "tests/e2e/test_kubectl_plugin.py"
FORMER_CRDS: Final = (
    "tests/e2e/test_install.py::test_definitions_of_earlier_commits_are_moved_by_the_commands_of_the_page"
)

CHART: Final = "needs a Pulsar of Apache's chart, which no test installs"
KAAP: Final = "needs a Pulsar of KAAP, which no test installs"
STREAMNATIVE: Final = "needs a Pulsar of StreamNative's operator, which no test installs"
COMPOSE: Final = "needs a Docker engine, which the tests do without"
MACHINE: Final = "changes users, services or files of the machine that it runs on"
YAML: Final = "YAML"
OUTPUT: Final = "output"

SAME: Final = "the same command as on the page of Apache's chart, which a test runs"
PICTURE: Final = "picture"
RELEASE: Final = "needs the files of a release and a registry; `make -C lab test-release` runs it with both"
TUTORIAL: Final = "a short form of docs/tutorials; tests run the commands of these pages"

DEMO: Final = "tests/integration/tools/test_demo.py runs it as the command"

PAGES: Final[Mapping[str, Mapping[str, Treatment]]] = {
    "../README.md": {
        "make demo": not_run(DEMO),
        "publish": no_commands(PICTURE),
        "docker build": not_run(COMPOSE),
        "helm install": not_run(TUTORIAL),
        "pip install": not_run(TUTORIAL),
    },
    "reference/api-versions.md": {
        "kubectl patch crd": cluster(FORMER_CRDS),
        "kubectl get robp": cluster(FORMER_CRDS),
        "kubectl patch --subresource": cluster(FORMER_CRDS),
    },
    "reference/compatibility.md": {
        "make -C lab compat": not_run(
            "takes about 10 minutes; tests/integration/short/test_compat.py runs it in short"
        ),
    },
    "reference/frameworks.md": {
        "make -C lab frameworks": not_run("takes more than an hour, and builds programs of several languages"),
    },
    "reference/spark.md": {
        "python3 -m venv": not_run(
            "needs a release of the package in an index; lab/tests/release/test_extras.py installs the extra"
        ),
    },
    "testing/messages.md": {
        "make -C lab oracle": not_run("takes minutes; tests/integration/short/test_oracle.py runs it in short"),
    },
    "testing/kubernetes.md": {
        "PULSAR_READONLY_KUBE_RELEASE=1.30 make test-e2e": not_run("takes half an hour, on a Kubernetes of its own"),
        "PULSAR_READONLY_KUBE_FAMILY=ipv6 make test-e2e": not_run("takes half an hour, on a Kubernetes of its own"),
    },
    "explanation/threat-model.md": {
        "clients": no_commands(PICTURE),
    },
    "how-to/adopt-bare-metal.md": {
        "sudo useradd": not_run(MACHINE),
        "sed -i": not_run("edits and restarts owner brokers of the reader's machines"),
        "sudo -u pulsar-readonly": not_run("needs the user and the files of this page; doctor runs on other pages"),
        "/opt/pulsar-readonly/bin/python": not_run("the comparison of adopt.md with the addresses of this page"),
        "sudo systemctl daemon-reload": not_run(MACHINE),
        "/opt/pulsar-readonly/bin/pulsar-readonly top": not_run("needs the broker and the Pulsar of this page"),
        "sudo systemctl disable": not_run(MACHINE),
    },
    "how-to/adopt-compose.md": {
        "docker build": not_run(COMPOSE),
        "docker compose up -d broker": not_run(COMPOSE),
        "docker run": not_run(COMPOSE),
        "docker compose up -d reader": not_run(COMPOSE),
        "docker compose exec reader": not_run(COMPOSE),
        "docker compose exec -T": not_run(COMPOSE),
        "docker compose stop": not_run(COMPOSE),
    },
    "how-to/adopt-helm-chart.md": {
        "kubectl exec -n pulsar": not_run(CHART),
        "kubectl get secret pulsar-token": not_run(CHART),
        "kubectl create namespace": local("kind: Secret"),
        "kubectl get secret pulsar-ca-tls": not_run(CHART),
        "helm upgrade": not_run(CHART),
        "kubectl run doctor": not_run(CHART),
        "kubectl apply": cluster(f"{KUBERNETES}::test_the_canary_of_the_guide"),
        "kubectl get robp": not_run(CHART),
        "kubectl exec -i": cluster(f"{KUBERNETES}::test_the_canary_of_the_guide"),
        "kubectl delete": cluster(f"{KUBERNETES}::test_the_canary_of_the_guide"),
    },
    "how-to/adopt-kaap.md": {
        "kubectl exec -n pulsar deployment/pulsar-bastion -- bin/pulsar-admin brokers": not_run(KAAP),
        "kubectl create namespace": local("kind: Secret"),
        "kubectl exec -n pulsar deployment/pulsar-bastion -- bin/pulsar-admin namespaces": not_run(KAAP),
        "kubectl get secret token-private-key": not_run(KAAP),
        "kubectl delete pod": not_run(KAAP),
        "kubectl run doctor": not_run(KAAP),
        "kubectl apply": not_run(KAAP),
        "kubectl get robp": not_run(KAAP),
        "kubectl exec -i": not_run(SAME),
        "kubectl delete rotb": not_run(SAME),
    },
    "how-to/adopt-streamnative.md": {
        "kubectl get pulsarbroker": not_run(STREAMNATIVE),
        "kubectl create namespace": local("kind: Secret"),
        "kubectl exec -n pulsar": not_run(STREAMNATIVE),
        "kubectl get statefulset": not_run(STREAMNATIVE),
        "kubectl run doctor": not_run(STREAMNATIVE),
        "kubectl apply": not_run(STREAMNATIVE),
        "kubectl get robp": not_run(STREAMNATIVE),
        "kubectl exec -i": not_run(SAME),
        "kubectl delete rotb": not_run(SAME),
    },
    "how-to/adopt.md": {
        "pulsar-admin brokers": cluster(f"{PULSAR}::test_the_commands_of_pulsar_in_the_guide"),
        "bin/pulsar tokens": cluster(f"{PULSAR}::test_the_commands_of_pulsar_in_the_guide"),
        "pulsar-admin namespaces": not_run("needs authorization, which the tests' common Pulsar does without"),
        "pulsar-readonly doctor": cluster(f"{PULSAR}::test_doctor_before_a_pool_is_added"),
        "pulsar-admin topics stats": cluster(f"{PULSAR}::test_the_comparison_of_the_guide"),
        "python examples": cluster(f"{PULSAR}::test_the_comparison_of_the_guide"),
        "pulsar-admin topics unsubscribe": cluster(f"{PULSAR}::test_the_comparison_of_the_guide"),
        "bin/pulsar zookeeper-shell": not_run(
            "removes nodes of a pool in Kubernetes; `make -C lab test-release` runs it after the rollback"
        ),
    },
    "how-to/bindings.md": {
        "spec:": no_commands(YAML),
        "pulsar-admin topics": not_run(
            "has the uid of a deleted pool; tests/e2e/test_local_cursors.py removes them otherwise"
        ),
        "status:": no_commands(YAML),
        "kind: ReadOnlyBrokerPool": no_commands(YAML),
    },
    "how-to/check-installation.md": {
        "pulsar-readonly doctor --config": cluster(f"{PULSAR}::test_doctor"),
        "pulsar-readonly doctor --metadata-store-url": cluster(f"{PULSAR}::test_doctor"),
        "kubectl exec POD": cluster(f"{PULSAR}::test_doctor"),
        "CHECK": no_commands(OUTPUT),
    },
    "how-to/explicit-lac.md": {
        "kubectl apply -k": cluster(f"{KUBERNETES}::test_the_grants_of_managed_explicit_lac"),
    },
    "how-to/gitops.md": {
        "kubectl patch configmap argocd-cm": cluster(
            "tests/e2e/test_health.py::test_the_health_check_leaves_other_settings_of_argo_cd"
        ),
    },
    "how-to/install.md": {
        "sha256sum": not_run("needs the files of a release and the signature of its workflow"),
        "export REGISTRY": not_run(RELEASE),
        "python3 -m venv": not_run(RELEASE),
        "helm install": local("kind: Deployment"),
        "helm upgrade pulsar-readonly": local("name: canary-pulsar-readonly-operator"),
        "kubectl apply": not_run(
            "changes the operator that all end-to-end tests share; tests/e2e/install.py upgrades it so"
        ),
        "kubectl delete": not_run("deletes the pools of all namespaces, which the end-to-end tests share"),
        "resources:": no_commands(YAML),
        "kubectl patch": not_run("repairs a pool without an operator, which the end-to-end tests always have"),
    },
    "how-to/kubectl-plugin.md": {
        "pipx install": not_run(
            "needs a release of the package in an index; tests/e2e/test_kubectl_plugin.py has the executable on its PATH"
        ),
        "kubectl readonly status -n": cluster(f"{PLUGIN}::test_the_blocks_of_the_guide"),
        "kubectl readonly status orders --topology": cluster(f"{PLUGIN}::test_the_blocks_of_the_guide"),
        "kubectl readonly top": not_run(
            "draws until it is interrupted; tests/e2e/test_kubectl_plugin.py runs it with --once"
        ),
        "kubectl readonly doctor": not_run(
            "ends with the status of the checks; tests/e2e/test_kubectl_plugin.py compares both"
        ),
        "kubectl create role": cluster(f"{PLUGIN}::test_the_blocks_of_the_guide"),
    },
    "how-to/local-subscriptions.md": {
        "pulsar-readonly subscriptions ls": cluster(f"{PULSAR}::test_local_subscriptions"),
        "pulsar-readonly subscriptions import": cluster(f"{PULSAR}::test_local_subscriptions"),
    },
    "how-to/metadata-stores.md": {
        "pulsar-readonly serve": not_run(
            "has an ellipsis for more options; tests/integration/stores/test_oxia.py starts brokers on Oxia"
        ),
        "curl": not_run("tests/integration/stores/test_migration.py starts such a migration, on a cluster of its own"),
    },
    "how-to/monitoring.md": {
        "scrape_configs:": no_commands(YAML),
        "kubectl -n shop logs": not_run(
            "needs jq, which is not installed; tests/integration/tools/test_stats.py reads the fields of such lines"
        ),
    },
    "how-to/olm.md": {
        "make -C lab olm": not_run("needs a registry, and the tools of OLM, which the tests do without"),
    },
    "how-to/plan-size.md": {
        "pulsar-readonly plan --readers": local("Does a pool suit this load?"),
        "pulsar-readonly plan --min-brokers": local("Does a pool suit this load?"),
        "pulsar-readonly plan --admin-url": cluster(f"{PULSAR}::test_plan_of_a_cluster"),
        "Does a pool": no_commands(OUTPUT),
    },
    "how-to/pool-pods.md": {
        "kubectl get --raw": not_run(
            "needs the Prometheus Adapter; tests/e2e/test_autoscaling.py serves the metrics itself"
        ),
    },
    "how-to/pools.md": {
        "authentication:": no_commands(YAML),
        "kubectl get ros": cluster(f"{KUBERNETES}::test_a_source_is_shared"),
        "kubectl annotate robp demo": cluster(f"{KUBERNETES}::test_a_restart_by_hand"),
        "kubectl patch robp demo": cluster(f"{KUBERNETES}::test_the_tutorial"),
        "kubectl create role": cluster(f"{KUBERNETES}::test_rights_are_granted"),
        "listeners:": no_commands(YAML),
    },
    "how-to/release.md": {
        "make -C lab release VERSION": not_run("builds images for some minutes; lab/tests/release has its parts"),
        "python -m devstack": not_run("needs the artefacts of two machines of different architectures"),
        "make -C lab release-check": not_run("builds a release twice, for some minutes"),
        "make -C lab test-release": not_run("builds a release and starts a Kubernetes of its own, for some minutes"),
    },
    "how-to/rights.md": {
        "kubectl create rolebinding": local("kind: RoleBinding"),
    },
    "how-to/replay.md": {
        "pulsar-readonly serve": not_run(
            "does not end by itself; tests/integration/reading/test_replay.py has the options"
        ),
        "export": not_run("needs a replay that runs; tests/integration/reading/test_replay.py runs the commands"),
        "pulsar-readonly replay delete": not_run("a replay must run; tests/integration/reading/test_replay.py runs it"),
        "kubectl readonly replay": not_run("needs a pool with a recording; tests/e2e/test_replay.py runs its commands"),
    },
    "how-to/runbooks.md": {
        "helm upgrade": local("runbook_url: https://docs.example.com/pulsar-readonly/latest/how-to/runbooks.html#"),
    },
    "how-to/secure-stores.md": {
        "create": no_commands("commands of ZooKeeper's shell"),
    },
    "how-to/sleeping-pools.md": {
        "kubectl patch robp demo": not_run(
            "the pool sleeps after ten minutes; tests/e2e/test_sleep.py has ten seconds"
        ),
        "kubectl wait robp demo": not_run("the pool sleeps after ten minutes; tests/e2e/test_sleep.py has ten seconds"),
    },
    "how-to/spark-export.md": {
        "pulsar-readonly export": not_run(
            "tests/integration/spark/test_export_tables.py runs the options on tables of its own"
        ),
    },
    "how-to/status-page.md": {
        "kubectl port-forward": not_run(
            "does not end by itself; tests/e2e/test_status_page.py opens the page otherwise"
        ),
        "pulsar-readonly top http": not_run(
            "draws on a terminal without end; tests/integration/tools/test_status_page.py runs it"
        ),
        "pulsar-readonly top --once": not_run(
            "needs jq, which is not installed; tests/integration/tools/test_status_page.py reads the field"
        ),
    },
    "how-to/topic-tool.md": {
        "export": cluster(f"{PULSAR}::test_the_topic_tool"),
        "persistent://": no_commands(OUTPUT),
    },
    "how-to/troubleshooting.md": {
        "kubectl get robp": cluster(f"{KUBERNETES}::test_the_canary_of_the_guide"),
        "pulsar-readonly topic show": cluster(f"{PULSAR}::test_the_topic_tool"),
    },
    "how-to/workers.md": {
        "pulsar-readonly serve": not_run(
            "has an ellipsis for more options; tests/integration/pools/test_workers.py starts workers"
        ),
    },
    "tutorials/demo.md": {
        "make demo ": not_run(DEMO),
        "make demo-kubernetes": not_run("`make test` runs the demo's job as tests/e2e/test_main_job.py"),
        "export PATH": cluster(f"{KUBERNETES}::test_the_tutorial"),
        "make clean-demo": not_run("ends the Kubernetes that the end-to-end tests share"),
    },
    "tutorials/kubernetes.md": {
        "tar -xf": not_run(RELEASE),
        "docker build": not_run(COMPOSE),
        "helm install pulsar-readonly pulsar-readonly-0.1.0.tgz": not_run(RELEASE),
        "helm install pulsar-readonly charts": not_run(
            "replaces the operator that all end-to-end tests share; how-to/install.md has the command too"
        ),
        "kubectl apply": cluster(f"{KUBERNETES}::test_the_tutorial"),
        "kubectl delete": not_run("removes the operator that all end-to-end tests share"),
    },
    "tutorials/process.md": {
        "make -C lab pulsar-up": not_run("starts the stack of a developer; the tests have stacks of their own"),
        ".venv/bin/pulsar-readonly serve": cluster(f"{PULSAR}::test_the_tutorial_of_a_process"),
        ".venv/bin/python": cluster(f"{PULSAR}::test_the_tutorial_of_a_process"),
        "curl": cluster(f"{PULSAR}::test_the_tutorial_of_a_process"),
        ".venv/bin/pulsar-readonly topic": cluster(f"{PULSAR}::test_the_tutorial_of_a_process"),
        "make -C lab pulsar-down": not_run("removes the stack of a developer with its data"),
    },
    "tutorials/spark.md": {
        "PYSPARK_PYTHON": cluster(f"{PULSAR}::test_the_tutorial_of_spark"),
        "+---": no_commands(OUTPUT),
    },
}
"""The rows by page and by the beginning of the block's first line."""
