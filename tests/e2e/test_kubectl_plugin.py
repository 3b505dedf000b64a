"""`kubectl readonly` on a real pool: as a plugin of kubectl, as a user with few rights, and with the checks' exit status."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubernetes import RIGHTS
from tests.shell_blocks.running import Shell, find

READY = {"Ready": ("True", "BrokersReady")}
HELD = {"Ready": ("True", "Held")}
USER = "jane"
JANE = {"kind": "User", "name": USER, "apiGroup": RIGHTS}
GROUP = "pulsar-readonly.io"


class Plugin:
    """Runs kubectl with the executable of the plugin on its PATH, as a user who has installed it."""

    def __init__(self, folder: Path, kubeconfig: str) -> None:
        self._folder = folder
        self._kubeconfig = kubeconfig

    def command_line(self, *arguments: str) -> tuple[list[str], dict[str, str]]:
        environment = {
            **os.environ,
            "PATH": f"{self._folder}{os.pathsep}{os.environ['PATH']}",
            "KUBECONFIG": self._kubeconfig,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        return [str(self._folder / "kubectl"), "readonly", *arguments], environment

    def __call__(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        command, environment = self.command_line(*arguments)
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            env=environment,
        )


@pytest.fixture
def plugin(kubernetes, tmp_path: Path) -> Plugin:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "kubectl-readonly"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m readonly_operator.kubectl.command "$@"\n')
    program.chmod(0o755)
    (folder / "kubectl").symlink_to(kubernetes._kubectl)

    return Plugin(folder, kubernetes.kubeconfig)


@pytest.fixture
def running(operator, writer, namespace, pool, binding) -> str:
    """A pool of two brokers with a binding; its namespace."""
    operator.apply(pool(replicas=2), binding("orders", "persistent://public/default/orders"))
    operator.expect("robp", "demo", namespace, READY, timeout=180)
    operator.expect("rotb", "orders", namespace, HELD, timeout=60)
    return namespace


def rule(group: str, verbs: list[str], *resources: str) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": list(resources), "verbs": verbs}


def test_status_has_pools_brokers_and_bindings(running, plugin) -> None:
    done = plugin("status", "-n", running)
    assert done.returncode == 0, done.stderr
    for text in ("demo-0", "demo-1", f"{running}/orders", "BrokersReady", "SourceReachable"):
        assert text in done.stdout
    assert "Missing rights" not in done.stdout
    document = json.loads(plugin("status", "demo", "-n", running, "-o", "json").stdout)
    (pool,) = document["pools"]
    assert [one["pod"] for one in pool["brokers"]] == ["demo-0", "demo-1"]
    assert all(one["processes"][0]["status"]["member_count"] == 2 for one in pool["brokers"])
    chart = plugin("status", "--topology", "-n", running).stdout
    assert chart.startswith("flowchart LR\n")
    assert "demo-1" in chart


@pytest.mark.nightly
def test_the_blocks_of_the_guide(kubernetes, running, tmp_path) -> None:
    """With the namespace of the test as that of the context, and its pool's name."""
    page = "how-to/kubectl-plugin.md"
    config = tmp_path / "kubeconfig"
    config.touch(0o600)
    config.write_text(kubernetes("config", "view", "--raw", "--flatten"))
    kubernetes("--kubeconfig", str(config), "config", "set-context", "--current", f"--namespace={running}")
    folder = tmp_path / "shell"
    folder.mkdir()
    own = (sys.executable, "-m", "readonly_operator.kubectl.command")
    shell = Shell(
        folder,
        {"kubectl": (kubernetes._kubectl,), "kubectl-readonly": own},
        {"-n streaming": f"-n {running}", "status orders": "status demo"},
        {"KUBECONFIG": str(config), "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    shown = shell.run(find(page, "kubectl readonly status -n"))
    assert shown.count("demo-1") >= 2, "as a table, and as JSON"
    shell.run(find(page, "kubectl readonly status orders --topology"))
    assert (folder / "orders.mmd").read_text().startswith("flowchart LR\n")
    shell.run(find(page, "kubectl create role"))
    for user, answer in ((USER, "yes"), ("another", "no")):
        done = kubernetes.run(
            "auth", "can-i", "get", "pods/demo-0", "--subresource=proxy", "-n", running, f"--as={user}"
        )
        assert done.stdout.strip() == answer, done.stderr


@pytest.mark.nightly
def test_doctor_has_the_exit_status_of_the_checks(running, plugin) -> None:
    """Without --strict, warnings are no failure; an unknown option of the checks is status 2."""
    done = plugin("doctor", "demo", "-n", running, "--", "--output", "json", timeout=180)
    worst = {one["result"] for one in json.loads(done.stdout)["findings"]}
    assert done.returncode == (2 if "fail" in worst else 0), done.stderr
    assert plugin("doctor", "demo", "-n", running, "--", "--no-such-option").returncode == 2


@pytest.mark.nightly
def test_a_user_with_few_rights_sees_what_they_allow(kubernetes, running, plugin) -> None:
    as_user = ("-n", running, f"--as={USER}")
    done = plugin("status", *as_user)
    assert done.returncode == 1
    assert f"missing right: list readonlybrokerpools.{GROUP} in namespace {running}" in done.stderr
    kubernetes.grant(
        running, "pools", rule(GROUP, ["get", "list"], "readonlybrokerpools", "readonlytopicbindings"), subject=JANE
    )
    done = plugin("status", *as_user)
    assert done.returncode == 0, done.stderr
    assert f"{running}/orders" in done.stdout
    assert f"list pods in namespace {running}" in done.stdout
    kubernetes.grant(running, "pods", rule("", ["get", "list"], "pods"), subject=JANE)
    done = plugin("status", *as_user)
    assert "demo-1" in done.stdout
    assert f"get pods/proxy in namespace {running}" in done.stdout
    assert "get pods/proxy" in plugin("top", "demo", "--once", *as_user).stderr
    done = plugin("doctor", "demo", *as_user)
    assert done.returncode == 2
    assert f"create pods/exec in namespace {running}" in done.stderr
    kubernetes.grant(running, "proxy", rule("", ["get"], "pods/proxy"), subject=JANE)
    done = plugin("status", *as_user)
    assert "Missing rights" not in done.stdout
    assert plugin("top", "demo", "--once", *as_user).returncode == 0


@pytest.mark.nightly
def test_the_role_view_shows_pools_brokers_and_bindings(kubernetes, running, plugin, eventually) -> None:
    """With the roles of people alone, which the operator's manifests install: figures and checks need `edit`."""
    kubernetes("create", "rolebinding", "viewer", "-n", running, "--clusterrole=view", f"--user={USER}")
    as_user = ("-n", running, f"--as={USER}")

    def shown() -> str:
        done = plugin("status", *as_user)  # the controller of aggregated roles adds the rights a moment later
        assert done.returncode == 0, done.stderr
        assert f"{running}/orders" in done.stdout
        return str(done.stdout)

    def complete() -> None:
        assert "Missing rights" not in shown()

    text = eventually(shown, 30)
    for one in ("demo-0", "demo-1", f"get pods/proxy in namespace {running}"):
        assert one in text
    assert plugin("doctor", "demo", *as_user).returncode == 2
    kubernetes("delete", "rolebinding", "viewer", "-n", running)
    kubernetes("create", "rolebinding", "viewer", "-n", running, "--clusterrole=edit", f"--user={USER}")
    eventually(complete, 30)


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(running, plugin, tmp_path, number) -> None:
    """kubectl replaces itself by the plugin, so the signal reaches the plugin alone and not its `kubectl proxy`."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    command, environment = plugin.command_line("top", "demo", "-n", running, "--output", "json")
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env={**environment, "TMPDIR": str(folder)}
    )
    try:
        assert json.loads(started.stdout.readline())["brokers"]
        started.send_signal(number)
        assert started.wait(30) == 130
    finally:
        started.kill()
        started.communicate(timeout=10)
    assert list(folder.iterdir()) == []
    listed = subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True, timeout=20).stdout
    assert str(folder) not in listed


@pytest.mark.nightly
def test_a_pool_that_is_not_well_says_where_to_look(operator, writer, namespace, pool, plugin, eventually) -> None:
    body = pool(replicas=1)
    body["spec"]["source"]["metadataStoreUrl"] = "zk:nobody.invalid:2181"
    operator.apply(body)

    def named() -> None:
        done = plugin("status", "demo", "-n", namespace)
        assert "SourceReachable is False (Unreachable)" in done.stdout
        assert f"kubectl readonly doctor demo -n {namespace}" in done.stdout

    eventually(named, timeout=120, every=3)
