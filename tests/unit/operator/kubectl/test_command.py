"""Options of the plugin, the command lines that it starts, its exit status, and its modules."""

import asyncio
import json
import subprocess
import sys

import pytest
from readonly_engine.status.text import printable
from readonly_engine.tool.errors import ToolError
from readonly_operator.kube.names import PoolKey
from readonly_operator.kubectl import command, doctor
from readonly_operator.kubectl.command import main, parser
from readonly_operator.kubectl.connection import Connection, output_of
from readonly_operator.kubectl.errors import PluginError
from readonly_operator.kubectl.options import kubectl, may_execute_command, namespace_command, proxy_command
from readonly_operator.kubectl.reading import Reader
from readonly_operator.kubectl.top import PoolStatusReader

from tests.support.states import SMALL
from tests.unit.operator.kubectl.recorded import (
    NAMESPACE,
    PODS,
    POOLS,
    Recorded,
    items,
    pod,
    refused,
    status_path,
    well,
)

KEY = PoolKey(NAMESPACE, "orders")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "COMMAND"),
        (["status", "Orders"], "'Orders' must be the name of a ReadOnlyBrokerPool"),
        (["status", "../pods"], "'../pods' must be the name of a ReadOnlyBrokerPool"),
        (["status", "-n", "a/b"], "'a/b' must be a namespace"),
        (["status", "-n", ""], "'' must be a namespace"),
        (["status", "--output", "yaml"], "invalid choice"),
        (["status", "--subscription", "s"], "--subscription: it needs --topic"),
        (["top", "--interval", "0"], "'0' must be a number of seconds from 1 to 3600"),
        (["status", "--", "--strict"], "options after -- are for doctor only"),
        (["top", "a", "b"], "unrecognized arguments"),
        (["replay", "delete"], "invalid choice"),
    ],
)
def test_wrong_options_are_one_clear_error(capsys, argv, message):
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_options_of_kubectl_are_passed_on_to_each_command_line():
    argv = [
        "status",
        "-n",
        "n",
        "--context",
        "c",
        "--kubeconfig",
        "f",
        "--as",
        "jane",
        "--as-group",
        "a",
        "--as-group",
        "b",
    ]
    options = parser().parse_args(argv)
    begin = kubectl(options, {})
    assert begin == ["kubectl", "--context=c", "--kubeconfig=f", "--as=jane", "--as-group=a", "--as-group=b"]
    assert kubectl(parser().parse_args(["status", "--cluster", "x", "--user", "y"]), {"KUBECTL": "/opt/kubectl"}) == [
        "/opt/kubectl",
        "--cluster=x",
        "--user=y",
    ]
    assert proxy_command(["kubectl"], "/d/s") == [
        "kubectl", "proxy", "--unix-socket=/d/s", "--reject-methods=POST,PUT,PATCH,DELETE", "--append-server-path",
    ]  # fmt: skip
    assert namespace_command(["kubectl"])[-3:] == ["view", "--minify", "--output=jsonpath={..namespace}"]
    assert may_execute_command(["kubectl"], "n", "orders-0")[1:] == [
        "auth", "can-i", "create", "pods/orders-0", "--subresource=exec", "--namespace=n",
    ]  # fmt: skip


def test_the_checks_run_in_the_first_ready_broker():
    pods = [pod("orders-0", ready=False), pod("orders-1"), pod("orders-2")]
    assert doctor.chosen(KEY, pods, "") is pods[1]
    assert doctor.chosen(KEY, pods, "orders-2") is pods[2]
    starting = pod("orders-3")
    starting["status"]["conditions"] = []
    assert doctor.chosen(KEY, [pods[0], starting], "") is starting, "it runs, and is not ready: then checks help most"
    with pytest.raises(PluginError, match="--broker: 'x' is no broker of pool streaming/orders"):
        doctor.chosen(KEY, pods, "x")
    with pytest.raises(PluginError, match="pool streaming/orders has no broker"):
        doctor.chosen(KEY, [], "")
    with pytest.raises(PluginError, match="no broker of pool streaming/orders runs; orders-0: CrashLoopBackOff"):
        doctor.chosen(KEY, pods[:1], "")


def test_the_command_line_of_the_checks():
    found = doctor.command(["kubectl", "--context=c"], pod("orders-1"), "doctor", ["--strict"], terminal=False)
    assert found == [
        "kubectl", "--context=c", "exec", "--namespace=streaming", "orders-1", "--container=broker", "--",
        "pulsar-readonly", "doctor", "--config=/etc/pulsar-readonly/engine.yaml",
        "--pool=streaming.orders", "--pool-uid=u-1", "--strict",
    ]  # fmt: skip
    assert doctor.command(["kubectl"], pod("orders-1"), "doctor", [], terminal=True)[5:8] == ["--stdin", "--tty", "--"]
    other = pod("orders-1")
    other["spec"]["containers"][0]["name"] = "sidecar"
    with pytest.raises(PluginError, match="pod orders-1 has no container 'broker'"):
        doctor.command(["kubectl"], other, "doctor", [], terminal=False)


@pytest.fixture
def recorded(monkeypatch):
    """The plugin with recorded answers, however late; the namespace is that of the context."""
    answers = well()
    monkeypatch.setattr("readonly_operator.kubectl.reading.BROKERS_TIMEOUT_S", 3600.0)
    monkeypatch.setattr(command, "output_of", lambda _: (0, NAMESPACE, ""))
    monkeypatch.setattr(Connection, "__enter__", lambda _: Recorded(answers))
    monkeypatch.setattr(Connection, "__exit__", lambda *_: None)
    return answers


def test_status_in_each_form(recorded, capsys):
    assert main(["status"]) == 0
    assert "Pool streaming/orders" in capsys.readouterr().out
    assert main(["status", "orders", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["pools"][0]["name"] == "orders"
    assert main(["status", "--topology"]) == 0
    assert capsys.readouterr().out.startswith("flowchart LR\n")
    recorded[POOLS], recorded["bindings"] = (200, items()), None
    assert main(["status"]) == 0
    assert "Bindings of other pools" in capsys.readouterr().out


def test_a_missing_right_beside_a_chart_is_on_standard_error(recorded, capsys):
    recorded[PODS] = (403, refused("list", "pods"))
    assert main(["status", "--topology"]) == 0
    captured = capsys.readouterr()
    assert "missing right: list pods in namespace streaming" in captured.err
    assert "right" not in captured.out


def test_what_cannot_be_shown_is_status_1(recorded, capsys):
    recorded[POOLS] = (403, refused("list", "pools"))
    assert main(["status"]) == 1
    assert capsys.readouterr().err.startswith("kubectl readonly status: missing right: list readonlybrokerpools")
    assert main(["status", "nobody"]) == 1


def test_checks_that_cannot_run_are_status_2(recorded, monkeypatch, capsys):
    for said, message in (
        ((1, "no", ""), "missing right: create pods/exec in namespace streaming"),
        ((1, "no - a reason", ""), "missing right: create pods/exec in namespace streaming"),
        ((1, "", "refused"), "the right to run a command in a pod is unknown: refused"),
    ):
        monkeypatch.setattr(command, "output_of", lambda _, said=said: said)
        assert main(["doctor", "orders", "-n", NAMESPACE]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["doctor", "-n", NAMESPACE, "--", "--topic", "t"], ["doctor", "--topic", "t"]),
        (["replay", "speed", "10", "-n", NAMESPACE, "--pool", "orders"], ["replay", "speed", "10"]),
        (["replay", "pause", "-n", NAMESPACE], ["replay", "pause"]),
    ],
)
def test_doctor_and_replay_become_kubectl(recorded, monkeypatch, given, passed):
    class ReplacedError(Exception):
        pass

    def execute(file, argv):
        raise ReplacedError(file, argv)

    monkeypatch.setattr(command.os, "execvp", execute)
    monkeypatch.setattr(command, "output_of", lambda _: (0, "yes", ""))
    monkeypatch.delenv("KUBECTL", raising=False)
    with pytest.raises(ReplacedError) as raised:
        main(given)
    file, argv = raised.value.args
    assert file == "kubectl"
    within = argv[argv.index("pulsar-readonly") + 1 :]
    assert [one for one in within if not one.startswith(("--config=", "--pool"))] == passed
    assert "orders-0" in argv


def test_the_namespace_is_the_contexts_else_default(recorded, monkeypatch, capsys):
    options = parser().parse_args(["status"])
    for said, namespace in (((0, "", ""), "default"), ((0, "team", ""), "team")):
        monkeypatch.setattr(command, "output_of", lambda _, said=said: said)
        assert command._namespace(options, ["kubectl"]) == namespace
    monkeypatch.setattr(command, "output_of", lambda _: (1, "", "no context"))
    with pytest.raises(PluginError, match="is unknown: no context; give --namespace"):
        command._namespace(options, ["kubectl"])


def test_a_kubectl_that_is_not_there_is_one_clear_error(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("KUBECTL", str(tmp_path / "none"))
    with pytest.raises(PluginError, match="is not found: install kubectl, or name it in the variable KUBECTL"):
        output_of([str(tmp_path / "none")])
    assert main(["status", "-n", "n"]) == 1
    assert "cannot be run" in capsys.readouterr().err


def test_a_kubectl_that_ends_at_once_has_its_last_line(monkeypatch, capsys, tmp_path):
    program = tmp_path / "kubectl"
    program.write_text('#!/bin/sh\necho "error: context \\"x\\" does not exist" >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("KUBECTL", str(program))
    assert main(["status", "-n", "n"]) == 1
    assert 'ended with status 1: error: context "x" does not exist' in capsys.readouterr().err


def test_top_keeps_the_brokers_after_a_first_answer():
    answers = well()
    reader = PoolStatusReader(Reader(Recorded(answers), NAMESPACE), KEY)
    first = asyncio.run(reader.read())
    assert [(one.url, one.status) for one in first] == [("orders-0", SMALL), ("orders-1", SMALL)]
    answers[PODS] = (500, {"kind": "Status", "message": "etcd is away"})
    second = asyncio.run(reader.read())
    assert [(one.url, one.status) for one in second] == [("orders-0", None), ("orders-1", None)]
    assert "etcd is away" in second[0].error
    with pytest.raises(ToolError, match="etcd is away"):
        asyncio.run(PoolStatusReader(Reader(Recorded(answers), NAMESPACE), KEY).read())
    answers[PODS] = (200, items())
    (none,) = asyncio.run(reader.read())
    assert (none.url, none.error) == ("streaming/orders", "the pool has no brokers")


def test_top_prints_the_screen_of_the_engine(recorded, monkeypatch, capsys):
    monkeypatch.setattr("readonly_engine.top.showing.RATE_S", 0.0)
    assert main(["top", "orders", "--once"]) == 0
    assert "pulsar://orders-0:6650" in capsys.readouterr().out
    recorded[status_path("orders-1")] = (503, {"kind": "Status", "message": "no route to host"})
    assert main(["top", "--once", "--output", "json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["brokers"][1]["error"] == printable("no route to host")
    assert "1 of 2 brokers did not answer: orders-1: no route to host" in captured.err


def test_it_needs_the_standard_library_only():
    """So it runs after `pip install pulsar-readonly`, without the packages of engine and operator."""
    code = (
        "import sys; before = set(sys.modules); import readonly_operator.kubectl.command\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - sys.stdlib_module_names - {'readonly_engine', 'readonly_operator'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"
