"""The command line, and what bad options say."""

from __future__ import annotations

import subprocess
import sys

import pytest
from readonly_operator import command
from readonly_operator.settings import Settings, SettingsError


def test_help_names_the_options(capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for option in (
        "--namespace",
        "--all-namespaces",
        "--lease",
        "--engine-image",
        "--liveness",
        "--metrics",
        "--log-format",
    ):
        assert option in text


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--namespace", "Team_A"],
            "--namespace Team_A: must be the name of a namespace, as in kubectl get namespaces",
        ),
        (
            ["--liveness", "8080"],
            "--liveness 8080: must be http://HOST:PORT/PATH, for example http://0.0.0.0:8081/healthz",
        ),
        (
            ["--lease", "operator"],
            "--lease operator: must be NAMESPACE/NAME, for example pulsar-readonly-system/operator",
        ),
        (["--metrics", "8082"], "--metrics 8082: must be HOST:PORT, for example 0.0.0.0:8082"),
        (["--metrics", "0.0.0.0:99999"], "--metrics 0.0.0.0:99999: must be HOST:PORT, for example 0.0.0.0:8082"),
    ],
)
def test_bad_options_say_what_would_be_right(capsys, argv, message):
    assert command.main(argv) == 2
    assert capsys.readouterr().err == f"pulsar-readonly operator: {message}\n"


def test_a_lease_that_would_be_lost_by_a_slow_answer_is_refused(capsys, monkeypatch):
    monkeypatch.setenv("PULSAR_READONLY_LEASE_SECONDS", "2")
    assert command.main(["--lease", "a/b"]) == 2
    assert capsys.readouterr().err.startswith(
        "pulsar-readonly operator: PULSAR_READONLY_LEASE_SECONDS=2: must be at least 3"
    )


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


def test_the_engine_image_is_by_default_of_the_operators_version():
    assert Settings.load({}).engine_image.startswith("pulsar-readonly/engine:")


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
