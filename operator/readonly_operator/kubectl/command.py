"""Command line of `kubectl readonly`, a plugin of kubectl: kubectl runs the executable `kubectl-readonly`."""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from readonly_engine.config.option_parser import OptionParser
from readonly_engine.status.text import printable
from readonly_engine.tool.errors import ToolError
from readonly_engine.tool.run import INTERRUPTED, print_error, run_command
from readonly_engine.top.options import add_screen_options, add_view_options, view_of
from readonly_engine.top.showing import show

from readonly_operator.kubectl import doctor, rights, tables, topology
from readonly_operator.kubectl.connection import Connection, output_of
from readonly_operator.kubectl.document import as_document
from readonly_operator.kubectl.errors import PluginError
from readonly_operator.kubectl.options import (
    add_kubectl_options,
    kubectl,
    may_execute_command,
    namespace,
    namespace_command,
    pool_name,
)
from readonly_operator.kubectl.reading import Reader
from readonly_operator.kubectl.top import PoolStatusReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from readonly_engine.status.view import View

NAME: Final = "kubectl readonly"
DEFAULT_NAMESPACE: Final = "default"
ACTIONS: Final = ("show", "pause", "resume", "speed", "seek")
"""Of `pulsar-readonly replay`. It deletes no replay with live brokers, and needs one to run in."""

MAX_ERROR: Final = 2000
"""Characters of an error. It may quote names and messages of objects."""

_EXAMPLES: Final = """examples:
  kubectl readonly status -n streaming
  kubectl readonly status orders --output json
  kubectl readonly status orders --topic persistent://public/default/orders
  kubectl readonly status orders --topology > orders.mmd
  kubectl readonly top orders
  kubectl readonly doctor orders -- --topic persistent://public/default/orders --strict
  kubectl readonly replay speed 10 --pool orders

It runs kubectl with the user's configuration and rights; KUBECTL names another program than the kubectl of PATH.
Exit status: 0, 1 if nothing can be shown, 2 for invalid options, 130 after an interrupt. doctor has that of the checks,
2 if they cannot run, and 1 if kubectl loses or cannot open the connection to the pod. replay has that of its command there."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = OptionParser(
        prog=NAME,
        description="Show pools of read-only brokers as their users see them. All commands but replay only read.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = made.add_subparsers(dest="command", metavar="COMMAND", required=True)
    status = commands.add_parser(
        "status",
        help="pools, brokers, bindings, conditions and topics",
        description="Show pools, brokers, bindings, conditions, topics and subscriptions, and where to look next.",
    )
    status.add_argument("name", metavar="NAME", nargs="?", type=pool_name, help="a pool; without it, all")
    status.add_argument(
        "-o", "--output", type=str.lower, choices=("text", "json"), default="text", help="form (default text)"
    )
    status.add_argument("--topology", action="store_true", help="print a Mermaid flowchart instead")
    add_view_options(status)
    top = commands.add_parser(
        "top",
        help="figures of a pool's brokers, refreshed",
        description="Show the figures of all brokers of a pool, as pulsar-readonly top does.",
    )
    top.add_argument("name", metavar="NAME", nargs="?", type=pool_name, help="a pool, if there are several")
    add_view_options(top)
    add_screen_options(top)
    checks = commands.add_parser(
        "doctor",
        help="check the source cluster from a broker's pod",
        description="Run pulsar-readonly doctor in the pod of a broker.",
    )
    checks.add_argument("name", metavar="NAME", nargs="?", type=pool_name, help="a pool, if there are several")
    checks.add_argument("--broker", metavar="POD", default="", help="pod to run in (default: the first ready one)")
    checks.add_argument(
        "arguments",
        metavar="-- OPTION",
        nargs="*",
        default=[],
        help="further options of pulsar-readonly doctor, after --",
    )
    replay = commands.add_parser(
        "replay",
        help="show and change the clock of a pool with spec.replay",
        description="Run pulsar-readonly replay in the pod of a broker.",
    )
    replay.add_argument("action", metavar="ACTION", choices=ACTIONS, help=", ".join(ACTIONS))
    replay.add_argument("value", metavar="VALUE", nargs="?", help="of speed and seek, as of pulsar-readonly replay")
    replay.add_argument("--pool", dest="name", metavar="NAME", type=pool_name, help="a pool, if there are several")
    replay.add_argument("--broker", metavar="POD", default="", help="pod to run in (default: the first ready one)")
    for one in (status, top, checks, replay):
        add_kubectl_options(one)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        The exit status; that of the checks for `doctor`.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(
            errors="backslashreplace"
        )  # a name may have characters that the terminal's encoding lacks
    made = parser()
    given, passed = _split(sys.argv[1:] if argv is None else list(argv))
    options = made.parse_args(given)
    is_doctor = options.command == "doctor"
    if passed and not is_doctor:
        made.error("options after -- are for doctor only")
    try:
        with _ended_by_signals():
            if is_doctor:
                return _run_in_pod(options, [*options.arguments, *passed])
            if options.command == "replay":
                return _run_in_pod(options, [one for one in (options.action, options.value) if one is not None])
            view = view_of(made, options)
            if options.command == "status" and options.topology and options.output == "json":
                made.error("argument --topology: it has no form json; leave out --output")
            if options.command == "top":
                return _top(options, view)
            return _status(options, view)
    except PluginError as error:
        print_error(f"{NAME} {options.command}", printable(str(error), MAX_ERROR))
        return doctor.FAILED if is_doctor else 1
    except BrokenPipeError:
        # The reader of the output has ended, for example `head`. The rest must not be flushed at exit.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED


def _split(argv: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments before the first `--`, and those after it."""
    at = argv.index("--") if "--" in argv else len(argv)
    return argv[:at], argv[at + 1 :]


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does, so that kubectl and its folder go too. nohup stays in force."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    ending = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, interrupt) for one in ending}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _status(options: argparse.Namespace, view: View) -> int:
    begin = kubectl(options)
    chosen = _namespace(options, begin)
    with Connection(begin) as connection:
        snapshot = Reader(connection, chosen, view.query()).snapshot(options.name or "")
    if options.topology:
        lines = topology.render(snapshot)
    elif options.output == "json":
        lines = [json.dumps(as_document(snapshot), indent=2)]
    else:
        lines = tables.render(snapshot) or [f"no pools and bindings in namespace {chosen}"]
    sys.stdout.write("\n".join([*lines, ""]))
    sys.stdout.flush()
    if options.topology:
        for right in snapshot.missing:
            print_error(f"{NAME} {options.command}", f"missing right: {right.text}")
    return 0


def _top(options: argparse.Namespace, view: View) -> int:
    begin = kubectl(options)
    chosen = _namespace(options, begin)
    with Connection(begin) as connection:
        reader = Reader(connection, chosen, view.query())
        pool = reader.pool(options.name) if options.name else reader.only_pool()
        return run_command(f"{NAME} top", show(PoolStatusReader(reader, pool.key), options), (ToolError,))


def _run_in_pod(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Replace this process by kubectl, so that its exit status, terminal and signals are those of the command in the pod."""
    begin = kubectl(options)
    chosen = _namespace(options, begin)
    with Connection(begin) as connection:
        reader = Reader(connection, chosen)
        pool = reader.pool(options.name) if options.name else reader.only_pool()
        pod = doctor.chosen(pool.key, reader.brokers(pool.key), options.broker)
    status, said, problem = output_of(may_execute_command(begin, chosen, pod["metadata"]["name"]))
    if status and said.partition(" ")[0] == "no":
        raise PluginError(f"missing right: {rights.execute_in_pods(chosen).text}")
    if status:
        raise PluginError(f"the right to run a command in a pod is unknown: {problem or said}")
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    command = doctor.command(begin, pod, options.command, arguments, terminal=terminal)
    sys.stdout.flush()
    os.execvp(command[0], command)  # noqa: S606 - no shell, and the user's own kubectl


def _namespace(options: argparse.Namespace, begin: Sequence[str]) -> str:
    """Return the namespace that is given, else that of the context, else `default`, as kubectl chooses it."""
    if options.namespace:
        return str(options.namespace)
    status, said, problem = output_of(namespace_command(begin))
    if status:
        raise PluginError(f"the namespace of the context is unknown: {problem}; give --namespace")
    if not said:
        return DEFAULT_NAMESPACE
    try:
        return namespace(said)
    except argparse.ArgumentTypeError as error:
        raise PluginError(f"the namespace of the context: {error}; give --namespace") from None


if __name__ == "__main__":
    sys.exit(main())
