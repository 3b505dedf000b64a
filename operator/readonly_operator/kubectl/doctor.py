"""`kubectl readonly doctor` and `replay`: the pod in which `pulsar-readonly` runs, and the command line. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from readonly_engine.status.text import printable

from readonly_operator.kube.names import CONFIG_DIRECTORY, CONFIG_KEY
from readonly_operator.kubectl.errors import PluginError
from readonly_operator.kubectl.snapshot import broker_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.kube.names import PoolKey

CONTAINER: Final = "broker"
PASSED: Final = ("--pool", "--pool-uid")
"""Options of a broker that are not in its file. They name the pool, and so its own consumers and its replay."""

FAILED: Final = 2
"""Exit status if the checks could not run: that of `pulsar-readonly doctor` for failures."""


def chosen(key: PoolKey, pods: Sequence[Manifest], wanted: str) -> Manifest:
    """Return the pod in which a command runs: the wanted one, else the first ready one, else the first that runs.

    Args:
        key: the pool.
        pods: pods of its brokers, by their ordinals.
        wanted: name of a pod; empty for any.

    Raises:
        PluginError: no such pod runs.
    """
    views = [(broker_view(pod), pod) for pod in pods]
    if wanted:
        views = [one for one in views if one[0].pod == wanted]
        if not views:
            raise PluginError(f"--broker: {wanted!r} is no broker of pool {key}; kubectl readonly status lists them")
    best = sorted((one for one in views if one[0].runs), key=lambda one: not one[0].ready)
    if best:
        return best[0][1]
    if not views:
        raise PluginError(f"pool {key} has no broker: kubectl readonly status {key.name} -n {key.namespace}")
    raise PluginError(f"no broker of pool {key} runs; {views[0][0].pod}: {printable(views[0][0].problem)}")


def command(
    begin: Sequence[str], pod: Manifest, subcommand: str, arguments: Sequence[str], *, terminal: bool
) -> list[str]:
    """Return the command line that runs a subcommand with the broker's own settings.

    Args:
        begin: kubectl, with the options that choose cluster and user.
        pod: the pod.
        subcommand: doctor or replay, of `pulsar-readonly`.
        arguments: its further arguments.
        terminal: whether input and output are a terminal.

    Raises:
        PluginError: the pod is no broker of the operator.
    """
    metadata = pod["metadata"]
    own = _arguments(pod)
    given = [part for option in PASSED for part in _option(own, option)]
    return [
        *begin,
        "exec",
        f"--namespace={metadata['namespace']}",
        metadata["name"],
        f"--container={CONTAINER}",
        *(["--stdin", "--tty"] if terminal else []),
        "--",
        "pulsar-readonly",
        subcommand,
        f"--config={CONFIG_DIRECTORY}/{CONFIG_KEY}",
        *given,
        *arguments,
    ]


def _arguments(pod: Manifest) -> list[str]:
    containers: list[Any] = (pod.get("spec") or {}).get("containers") or []
    for container in containers:
        if isinstance(container, dict) and container.get("name") == CONTAINER:
            return [str(one) for one in container.get("args") or ()]
    raise PluginError(f"pod {pod['metadata']['name']} has no container {CONTAINER!r}: it is no broker of the operator")


def _option(arguments: Sequence[str], option: str) -> list[str]:
    """Return an option with its value as one argument; nothing if the arguments do not have it."""
    for index, one in enumerate(arguments[:-1]):
        if one == option:
            return [f"{option}={arguments[index + 1]}"]
    return []
