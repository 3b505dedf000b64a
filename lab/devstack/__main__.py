"""`python -m devstack`: one tool for the Pulsar, the Kubernetes and the images that demo and tests run on."""

from __future__ import annotations

import argparse
import importlib
import sys

from devstack.errors import DevstackError

# Each names a module with `add_commands(parser)`, which sets the default `run` to a function of the parsed arguments.
_GROUPS = {
    "pulsar": ("devstack.pulsar.command", "a real Pulsar as processes: ZooKeeper, bookies, brokers"),
    "objectstore": ("devstack.objectstore.command", "a real S3-compatible object store, for offloaded ledgers"),
    "kube": ("devstack.kube.command", "a real Kubernetes: kind where Docker runs, else a local node"),
    "kind": ("devstack.docker.command", "real kind, on a Docker engine in namespaces, where no Docker engine runs"),
    "image": ("devstack.images.command", "build container images and load them into the Kubernetes"),
    "release": ("devstack.release.command", "packages, images, chart and manifests of a version, from one commit"),
    "demo": ("devstack.demo.command", "from nothing to messages that are read through a pool"),
    "screenshots": ("devstack.screenshots.command", "pictures of the status pages and of the terminal, for docs/"),
    "clients": ("devstack.clients.fetch", "stock clients of several languages and releases, for `make -C lab compat`"),
    "jars": (
        "devstack.jars.command",
        "jars by Maven coordinates: Delta for the `spark` image, what benches compare with",
    ),
    "writer": ("devstack.writer.command", "the source Pulsar cluster inside that Kubernetes"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 1 failed, 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m devstack", description=__doc__)
    groups = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    words = sys.argv[1:] if argv is None else argv
    try:
        for name, (module, summary) in _GROUPS.items():
            group = groups.add_parser(name, help=summary, description=summary)
            if words[:1] == [name]:  # the others may need packages that the environment of a demo does not have
                importlib.import_module(module).add_commands(group)
        args = parser.parse_args(words)
        status = args.run(args)
    except DevstackError as error:
        print(f"devstack: {error.text}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("devstack: interrupted; run the same command again to go on", file=sys.stderr)
        return 130
    return int(status or 0)


if __name__ == "__main__":
    sys.exit(main())
