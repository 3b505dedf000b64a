"""kubectl and helm without a cluster, for blocks of pages: what both can make on their own, else status 3.

python -m tests.shell_blocks.offline kubectl|helm PROGRAM ARGUMENT...
"""

import subprocess
import sys
from typing import Final

NEEDS_A_CLUSTER: Final = 3
KUBERNETES: Final = "1.36"
"""What charts are rendered for."""

_MADE: Final = ("namespace", "rolebinding", "secret", "configmap")
"""Kinds that `kubectl create` makes without asking a server which kinds there are."""

REUSE: Final = "--reset-then-reuse-values"

_INSTALLED: Final = (
    "--set=image.repository=images.example.org/operator",
    "--set=engineImage=images.example.org/engine:1",
)
"""Values of an earlier `helm install`, for an upgrade that uses them again."""

_LIMIT_S: Final = 120


def main(argv: list[str]) -> int:
    """Run one command; return its exit status."""
    name, path, *arguments = argv
    return _kubectl(path, arguments) if name == "kubectl" else _helm(path, arguments)


def _kubectl(path: str, arguments: list[str]) -> int:
    match arguments:
        case ["create", kind, *_] if kind in _MADE:
            return _run(path, *arguments, "--dry-run=client", "-o", "yaml")
        case ["apply", "-k", folder]:
            return _run(path, "kustomize", folder)
        case ["label", "namespace", name, *labels]:
            made = subprocess.run(
                [path, "create", "namespace", name, "--dry-run=client", "-o", "yaml"],
                capture_output=True,
                check=True,
                timeout=_LIMIT_S,
            )
            return _run(path, "label", "--local", "-f", "-", *labels, stdin=made.stdout)
    return _refuse("kubectl", arguments)


def _helm(path: str, arguments: list[str]) -> int:
    match arguments:
        case ["install" | "upgrade", name, chart, *options] if chart.startswith("charts/"):
            kept = [one for one in options if one not in {"--create-namespace", REUSE}]
            installed = _INSTALLED if REUSE in options else ()
            return _run(path, "template", name, chart, "--kube-version", KUBERNETES, *installed, *kept)
    return _refuse("helm", arguments)


def _run(*command: str, stdin: bytes = b"") -> int:
    return subprocess.run(command, input=stdin, check=False, timeout=_LIMIT_S).returncode


def _refuse(name: str, arguments: list[str]) -> int:
    sys.stderr.write(f"{name} {' '.join(arguments)}: needs a cluster\n")
    return NEEDS_A_CLUSTER


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
