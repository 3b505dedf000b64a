"""Options of kubectl that the plugin passes on, and the command lines that it starts. Pure."""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VARIABLE: Final = "KUBECTL"
"""Environment variable with the path of kubectl."""

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,48}[a-z0-9])?")
_GLOBAL: Final = (
    ("--context", "NAME", "context of the kubeconfig (default: the current one)"),
    ("--kubeconfig", "FILE", "kubeconfig file (default: KUBECONFIG, or ~/.kube/config)"),
    ("--cluster", "NAME", "cluster of the kubeconfig, instead of the context's"),
    ("--user", "NAME", "user of the kubeconfig, instead of the context's"),
    ("--as", "USER", "act as another user; needs the right to impersonate"),
)


def add_kubectl_options(made: argparse.ArgumentParser) -> None:
    """Add the namespace and the options that choose cluster and user."""
    group = made.add_argument_group("kubectl")
    group.add_argument("-n", "--namespace", metavar="NAME", type=namespace, help="namespace (default: the context's)")
    for flag, form, text in _GLOBAL:
        group.add_argument(flag, metavar=form, default="", help=text)
    group.add_argument(
        "--as-group", metavar="GROUP", action="append", default=[], help="group to act as; may be repeated"
    )


def namespace(text: str) -> str:
    """Return the name of a namespace.

    Raises:
        argparse.ArgumentTypeError: the text is none.
    """
    if not _LABEL.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a namespace: lower-case letters, digits and '-', at most 63 characters"
        )
    return text


def pool_name(text: str) -> str:
    """Return the name of a pool.

    Raises:
        argparse.ArgumentTypeError: the text is none.
    """
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} must be the name of a ReadOnlyBrokerPool: lower-case letters, digits and '-', a letter first, "
            "at most 50 characters"
        )
    return text


def kubectl(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the beginning of each command line: kubectl, and the options that choose cluster and user.

    Args:
        options: options of `add_kubectl_options`.
        environment: environment variables.
    """
    made = [environment.get(VARIABLE) or "kubectl"]
    for flag, _, _ in _GLOBAL:
        value = getattr(options, flag.removeprefix("--"))
        if value:
            made.append(f"{flag}={value}")
    return [*made, *(f"--as-group={group}" for group in options.as_group)]


def proxy_command(begin: Sequence[str], socket: str) -> list[str]:
    """Return the command line of a proxy that reads only.

    Args:
        begin: from `kubectl`.
        socket: path of its socket, in a folder of this user alone.
    """
    return [
        *begin,
        "proxy",
        f"--unix-socket={socket}",
        "--reject-methods=POST,PUT,PATCH,DELETE",
        "--append-server-path",
    ]


def namespace_command(begin: Sequence[str]) -> list[str]:
    """Return the command line that prints the namespace of the context; it prints nothing for `default`."""
    return [*begin, "config", "view", "--minify", "--output=jsonpath={..namespace}"]


def may_execute_command(begin: Sequence[str], namespace_: str, pod: str) -> list[str]:
    """Return the command line that prints whether the user may run a command in a pod."""
    return [*begin, "auth", "can-i", "create", f"pods/{pod}", "--subresource=exec", f"--namespace={namespace_}"]
