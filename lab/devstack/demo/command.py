"""`python -m devstack demo`: the quickstart from nothing, with a table of the results."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from readonly_engine.demo.report import render

from devstack.console import say, step
from devstack.demo.run import CLIENT_NAMESPACE, OPERATOR_NAMESPACE, Demo
from devstack.errors import DevstackError
from devstack.images.targets import PROJECT
from devstack.kube.choice import choose

if TYPE_CHECKING:
    import argparse

MESSAGES = 10_000


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add run and clean."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    running = commands.add_parser("run", help="bring everything up, produce, read through the pool, and report")
    running.add_argument("--messages", type=int, default=MESSAGES, help=f"number of messages (default {MESSAGES})")
    running.add_argument("--keep-operator", action="store_true", help="use the operator that is installed already")
    running.set_defaults(run=_run)
    cleaning = commands.add_parser("clean", help="end the Kubernetes of the demo, and all that runs in it")
    cleaning.set_defaults(run=_clean)


def _run(args: argparse.Namespace) -> int:
    if args.messages < 1:
        raise DevstackError(f"--messages must be at least 1, not {args.messages}")
    begin = time.monotonic()
    demo = Demo(args.messages, keep_operator=args.keep_operator)
    demo.bring_up()
    results = demo.read_and_ack()
    print(f"\n{render(results)}\n\n{demo.objects()}\n")
    problems = [problem for result in results for problem in result.problems]
    for problem in problems:
        print(f"PROBLEM: {problem}")
    print(f"The demo took {time.monotonic() - begin:.0f} s. To look around:")
    print(f"  export KUBECONFIG={demo.kubeconfig}")
    print("  kubectl describe robp/demo rotb/orders;  kubectl logs demo-0")
    print(f"  kubectl -n {OPERATOR_NAMESPACE} logs deployment/pulsar-readonly-operator;  kubectl -n pulsar get pods")
    print(f"  kubectl -n {CLIENT_NAMESPACE} logs consume-shared;  cat {demo.example.relative_to(PROJECT)}")
    print("To clean up: make clean-demo")
    return 1 if problems else 0


def _clean(args: argparse.Namespace) -> int:
    del args
    with step("the demo's Kubernetes and all that runs in it end"):
        choose().down(purge=True)
    say("programs and images stay cached for the next time")
    return 0
