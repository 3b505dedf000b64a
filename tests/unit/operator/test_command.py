"""The command line, and what bad options say."""

import json
import logging
import subprocess
import sys

import pytest
from readonly_engine.config.option import options_of
from readonly_operator import command
from readonly_operator.settings import FLAGS, SELECTOR, Settings, SettingsError


def test_each_flag_overrides_a_setting():
    assert set(FLAGS) <= {one.name for one in options_of(Settings)}
    assert set(FLAGS.values()) <= set(command.parser()._option_string_actions)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--namespace", "Team_A"],
            "--namespace Team_A: must be the name of a namespace, as in kubectl get namespaces",
        ),
        (
            ["--liveness", "8080"],
            "--liveness 8080: must be http://HOST:PORT/PATH, for example http://*:8081/healthz",
        ),
        (
            ["--lease", "operator"],
            "--lease operator: must be NAMESPACE/NAME, for example pulsar-readonly-system/operator",
        ),
        (
            ["--selector", "operator in (a, b)"],
            f"--selector operator in (a, b): must be {SELECTOR.expected}",
        ),
        (["--metrics", "8082"], "--metrics 8082: must be HOST:PORT, for example *:8082"),
        (["--metrics", "0.0.0.0:99999"], "--metrics 0.0.0.0:99999: must be HOST:PORT, for example *:8082"),
    ],
)
def test_bad_options_say_what_would_be_right(capsys, argv, message):
    assert command.main(argv) == 2
    assert capsys.readouterr().err == f"pulsar-readonly operator: {message}\n"


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("LEASE", "operator", "--lease operator: must be NAMESPACE/NAME, for example pulsar-readonly-system/operator"),
        ("NAMESPACES", "a Team_A", "--namespace Team_A: must be the name of a namespace, as in kubectl get namespaces"),
    ],
)
def test_a_bad_variable_of_a_flag_is_an_error(capsys, monkeypatch, variable, text, message):
    monkeypatch.setenv(f"PULSAR_READONLY_{variable}", text)
    assert command.main([]) == 2
    assert capsys.readouterr().err == f"pulsar-readonly operator: {message}\n"


def test_an_empty_flag_overrides_its_variable():
    environ = {"PULSAR_READONLY_LEASE": "a/b", "PULSAR_READONLY_NAMESPACES": "a"}
    settings = Settings.load(environ, lease="", namespaces=())
    assert (settings.lease, settings.namespaces) == ("", ())


def test_a_lease_that_would_be_lost_by_a_slow_answer_is_refused(capsys, monkeypatch):
    monkeypatch.setenv("PULSAR_READONLY_LEASE_SECONDS", "2")
    assert command.main(["--lease", "a/b"]) == 2
    assert capsys.readouterr().err.startswith(
        "pulsar-readonly operator: PULSAR_READONLY_LEASE_SECONDS=2: must be at least 3"
    )


@pytest.mark.parametrize("url", ["http://*:8081/healthz", "http://[::1]:8081/healthz", "http://127.0.0.1:8081/x"])
def test_addresses_for_probes_of_either_family(url):
    assert command.LIVENESS.fullmatch(url)


def test_two_scopes_exclude_each_other(capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(["--namespace", "a", "--all-namespaces"])
    assert caught.value.code == 2
    assert "not allowed with argument --namespace" in capsys.readouterr().err


def test_settings_come_from_the_environment_and_flags_win():
    environ = {
        "PULSAR_READONLY_NAMESPACES": "a, b",
        "PULSAR_READONLY_ENGINE_IMAGE": "from-environment:1",
        "PULSAR_READONLY_RESYNC_SECONDS": "30",
    }
    settings = Settings.load(environ, engine_image="from-flag:1", namespaces=None)
    assert settings.namespaces == ("a", "b")
    assert settings.engine_image == "from-flag:1"
    assert settings.resync_seconds == 30


def test_the_operator_knows_its_namespace_by_its_pod():
    assert Settings.load({"POD_NAMESPACE": "system"}).own_namespace == "system"
    assert Settings.load({"POD_NAMESPACE": "a", "PULSAR_READONLY_OWN_NAMESPACE": "b"}).own_namespace == "b"
    with pytest.raises(SettingsError, match="PULSAR_READONLY_OWN_NAMESPACE=A: must be the name of a namespace"):
        Settings.load({"PULSAR_READONLY_OWN_NAMESPACE": "A"})


def test_no_image_is_the_default():
    assert Settings.load({}).engine_image == "", "a short name would be that of a stranger"


@pytest.mark.parametrize("text", ["0", "-1", "soon", "1.5"])
def test_a_bad_variable_is_named(text):
    with pytest.raises(SettingsError) as caught:
        Settings.load({"PULSAR_READONLY_WORKERS": text})
    assert str(caught.value) == f"PULSAR_READONLY_WORKERS={text}: must be a whole number above 0"


def test_without_a_kubernetes_configuration_it_says_where_it_looks(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from readonly_operator.command import main; sys.exit(main([]))"],
        env={"KUBECONFIG": str(tmp_path / "none"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "pulsar-readonly operator: no Kubernetes configuration: Invalid kube-config file. No configuration found. "
        "Run in a pod, or set KUBECONFIG"
    )


@pytest.fixture
def handler_of(monkeypatch):
    """Returns the handler that the command gives to the root logger."""
    found = []
    monkeypatch.setattr(logging, "basicConfig", lambda **given: found.extend(given["handlers"]))
    level = logging.getLogger().level

    def configure(log_format):
        command._configure_logs(log_format, "info")
        (handler,) = found
        return handler

    yield configure
    logging.getLogger().setLevel(level)
    logging.getLogger("kopf.objects").setLevel(logging.NOTSET)


def logged(text, *args):
    return logging.getLogger("a").makeRecord("a", logging.INFO, "", 1, text, args, None)


@pytest.mark.parametrize(
    ("reference", "shown"),
    [({"kind": "Pod", "namespace": "team", "name": "demo-0"}, "team/demo-0"), ({"name": "a"}, "a"), (None, None)],
)
def test_json_logs_have_the_keys_of_brokers_and_the_object(handler_of, reference, shown):
    record = logged("changed: pool=%s", "team/demo")
    record.k8s_ref = reference
    found = json.loads(handler_of("json").format(record))
    assert {"time", "level", "logger", "message"} < found.keys()
    assert (found["pool"], found.get("object")) == ("team/demo", shown)


def test_text_logs_hide_secrets(handler_of):
    assert "pa55" not in handler_of("text").format(logged("url=%s", "http://me:pa55@x/"))
