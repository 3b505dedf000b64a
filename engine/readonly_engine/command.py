"""The command `pulsar-readonly`, with its subcommands."""

from __future__ import annotations

import importlib
import sys

from readonly_engine import build_info

# Modules by name, imported on use: each subcommand needs only its own dependencies.
PARTS = {
    "demo": ("readonly_engine.demo.command", "show a pool at work, with a stock Pulsar and stock clients"),
    "serve": ("readonly_engine.serve", "run one read-only broker"),
    "wake": ("readonly_engine.wake.command", "stand in for a pool that sleeps, until a client needs it"),
    "doctor": ("readonly_engine.doctor.command", "check a cluster and this machine before or after an installation"),
    "plan": ("readonly_engine.sizing.command", "estimate the size of a pool for a load"),
    "top": ("readonly_engine.top.command", "show the figures of brokers in a terminal"),
    "topic": ("readonly_engine.tool.command", "inspect topics in storage"),
    "subscriptions": (
        "readonly_engine.subscriptions.command",
        "inspect and change subscriptions that a pool keeps itself",
    ),
    "replay": ("readonly_engine.replays.command", "show and change the replays of a pool"),
    "export": ("readonly_spark.export.command", "export topics to Parquet, Delta or Iceberg with Apache Spark"),
    "operator": ("readonly_operator.command", "run the Kubernetes operator"),
}


def usage() -> str:
    """Return the text of `--help`."""
    parts = "\n".join(f"  {name:13} {summary}" for name, (_, summary) in PARTS.items())
    return (
        "usage: pulsar-readonly COMMAND [options]\n\nRead-only broker pools for Apache Pulsar.\n\n"
        f"commands:\n{parts}\n\n`pulsar-readonly COMMAND --help` lists its options; --version prints\n"
        "version, commit, Python and the C modules that are loaded."
    )


def main(argv: list[str] | None = None) -> int:
    """Run a subcommand.

    Returns:
        Its exit status; 2 for an unknown subcommand.
    """
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in {"-h", "--help"}:
        print(usage())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(build_info.report())
        return 0
    part = PARTS.get(arguments[0])
    if part is None:
        print(f"pulsar-readonly: no command {arguments[0]!r}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    return int(importlib.import_module(part[0]).main(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main())
