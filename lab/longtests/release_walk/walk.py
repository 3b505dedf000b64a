"""One walk: a release is checked, pushed, installed, used and removed, by the blocks of the pages as they are."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Final

from readonly_engine import native

from devstack.common.run import wait_until
from devstack.console import say
from devstack.errors import DevstackError
from longtests.release_walk import judging
from longtests.release_walk.artefacts import NEEDED, check_sums, ids
from longtests.release_walk.cluster import GROUP, SYSTEM, TEAM, buildah_path, pulled
from longtests.release_walk.pods import NAMESPACE, OWNER_URL, PLAN, POOL_URL, SOURCE, TOPIC, Pods
from longtests.release_walk.report import FIRST_STEPS
from tests.shell_blocks.blocks import Block, of_page
from tests.shell_blocks.running import Shell, find

if TYPE_CHECKING:
    from longtests.release_walk.artefacts import Artefacts
    from longtests.release_walk.cluster import Cluster
    from longtests.release_walk.report import Report

TUTORIAL: Final = "tutorials/kubernetes.md"
INSTALL: Final = "how-to/install.md"
ADOPT: Final = "how-to/adopt.md"
REGISTRY: Final = "images.example.org"
"""Of the pages; the walk's own takes its place."""

VERSION: Final = "0.1.0"
"""Of the pages; the release's own takes its place."""

POOL: Final = "demo"
RATE: Final = 20
BEFORE: Final = 200
"""Messages for the comparison of the guide."""

STEADY: Final = 100
"""Messages of each subscription in each part of the rollback."""

SETTLED_S: Final = 120
_IGNORED: Final = frozenset({"events", "events.events.k8s.io", "componentstatuses"})
_COLUMNS: Final = "custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name"
_ZOOKEEPER: Final = ("exec", "-n", SOURCE, "pulsar-zookeeper-0", "--", "bin/pulsar")
_COMPARE: Final = 'script=$1; shift; exec "$KUBECTL" exec -i -n {} tool -- python3 - "$@" <"$script"'


class Walk:
    """A walk through a release in a folder of its own.

    Args:
        release: the release; nothing else is in its folder.
        cluster: clean, with a registry.
        report: gets durations and counts.
    """

    def __init__(self, release: Artefacts, cluster: Cluster, report: Report) -> None:
        self._release = release
        self._cluster = cluster
        self._report = report
        self._kubectl = cluster.kubectl
        self._ids = {name: ids(release.image(name)) for name in NEEDED}
        self._pods = Pods(self._kubectl, f"{cluster.prefix}/pulsar-readonly-engine:{release.version}")
        self._shell = self._made_shell()

    def _made_shell(self) -> Shell:
        """Return a shell with the release's files, kubectl, Helm and buildah; settings and storage are in `.programs`."""
        folder = self._release.folder
        state = folder / ".programs"
        registries = state / "registries.conf"
        # Debian's buildah 1.28 reads no variable for this file when it pushes.
        settings = ("--registries-conf", str(registries), "--storage-driver", "vfs")
        # Its path: a script of its name comes first on the PATH of blocks, and would run itself.
        buildah = (buildah_path(), "--root", f"{state}/root", "--runroot", f"{state}/run", *settings)
        kubectl = self._kubectl.program
        programs = {
            "kubectl": (kubectl,),
            "helm": (self._cluster.helm,),
            "buildah": buildah,
            "pulsar": (kubectl, *_ZOOKEEPER),
            "python": ("sh", "-c", _COMPARE.format(NAMESPACE), "sh"),
        }
        replaced = {
            REGISTRY: self._cluster.prefix,
            VERSION: self._release.version,
            "python3 -m venv": f"{self._release.python()} -m venv",
            "bin/pulsar ": "pulsar ",
            "zookeeper:2181": "localhost:2181",
            "pools/canary": f"pools/default.{POOL}",
            "pulsar://broker:6650": OWNER_URL,
            "pulsar://pool:6650": POOL_URL,
        }
        variables = {
            "KUBECONFIG": str(self._kubectl.kubeconfig),
            "KUBECTL": kubectl,
            "KUBECACHEDIR": str(state / "kubectl"),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), f"127.0.0.1,localhost,{self._cluster.registry.host}"),
        }
        made = Shell(folder, programs, replaced, variables, repository=False)
        location = json.dumps(self._cluster.registry.address)
        registries.write_text(f"[[registry]]\nlocation = {location}\ninsecure = true\n", encoding="utf-8")
        return made

    def run(self) -> list[str]:
        """Walk; return what is wrong.

        Raises:
            DevstackError: a step failed, or an effect did not come in time.
            AssertionError: a block of a page failed; the message has its output.
        """
        self._check_python_package()
        with self._report.timed("push the images to the registry"):
            self._shell.run(find(INSTALL, "export REGISTRY"))
        self._prepare_source()
        self._cluster.check_absent(self._ids.values())
        before = self._objects(), self._nodes()
        self._follow_tutorial()
        self._check_pulled()
        self._check_plugin()
        wrong = self._roll_back()
        self._remove(*before)
        self._cluster.forget(self._ids.values())
        return wrong + [f"left: {name}" for name in self._report.left]

    # -- the package ------------------------------------------------------------------------------------------------

    def _check_python_package(self) -> None:
        with self._report.timed("install the wheel into a new virtual environment"):
            said = self._shell.run(find(INSTALL, "python3 -m venv"))
        check_version(said, self._release.version, self._release.commit)

    def _check_plugin(self) -> None:
        tools = self._release.folder / ".venv" / "bin"
        text = f"PATH={shlex.quote(str(tools))}:$PATH kubectl readonly status -n default"
        said = self._shell.run(Block("how-to/kubectl-plugin.md", "", text))
        if POOL not in said:
            raise DevstackError(f"kubectl readonly status of the wheel does not show the pool {POOL}", said[-1500:])

    # -- the tutorial -----------------------------------------------------------------------------------------------

    def _prepare_source(self) -> None:
        """Start the Pulsar that the tutorial asks for, with a namespace that has served a topic."""
        self._cluster.devstack("writer", "up", "--brokers", "1")
        produce = ("bin/pulsar-client", "produce", "persistent://public/default/warm-up", "-m", "warm-up")
        self._kubectl.run("exec", "-n", SOURCE, "pulsar-broker-0", "--", *produce, timeout=SETTLED_S)

    def _follow_tutorial(self) -> None:
        self._shell.run(find(TUTORIAL, "tar -xf"))
        with self._report.timed(FIRST_STEPS[0]):
            self._shell.run(find(TUTORIAL, "helm install pulsar-readonly pulsar-readonly-0.1.0.tgz"))
        with self._report.timed(FIRST_STEPS[1]):
            self._shell.run(find(TUTORIAL, "kubectl apply"))
        self._pods.up()
        (snippet,) = [block.text for block in of_page(TUTORIAL) if block.language == "python"]
        with self._report.timed(FIRST_STEPS[2]):
            self._pods.snippet("first", snippet)
            self._pods.wait("the consumer of the tutorial has subscribed", self._subscribed, "first")
            self._pods.publish(1)
            self._pods.wait("the first message", lambda: "b'before-0'" in self._pods.log("first"), "first")
        self._kubectl.run("delete", "pod", "first", "-n", NAMESPACE)
        self._pods.publish(BEFORE)

    def _subscribed(self) -> bool:
        try:
            found = self._pods.stats()["subscriptions"].get("my-subscription", {})
        except DevstackError:
            return False  # the topic comes with its first consumer
        return bool(found.get("consumers"))

    def _check_pulled(self) -> None:
        """Check that the nodes have the images from the registry, by its log, by events and by what the pods are allowed to do.

        Raises:
            DevstackError: an image did not come from there.
        """
        requests = self._cluster.registry.requests()
        for name, one in self._ids.items():
            if one.config not in pulled(requests, f"{TEAM}/pulsar-readonly-{name}"):
                raise DevstackError(
                    f"the registry's log has no pull of the image {name} (ID {one.config}) by containerd"
                )
        pods = [
            *self._kubectl.json("get", "pods", "-n", SYSTEM)["items"],
            *self._kubectl.json("get", "pods", "-n", "default", "-l", f"{GROUP}/pool={POOL}")["items"],
        ]
        if wrong := wrong_containers(pods, self._cluster.prefix):
            raise DevstackError(f"pods do not run the release's images: {'; '.join(wrong)}")

    # -- the rollback -----------------------------------------------------------------------------------------------

    def _roll_back(self) -> list[str]:
        """Follow the rollback of the guide under traffic; return what is wrong."""
        pods = self._pods
        compared = [self._compare()]
        pods.consumers("pool", POOL_URL)
        pods.publisher("publisher", OWNER_URL, RATE)
        self._await_messages("pool", STEADY)
        served = self._served()
        with self._report.timed("delete the binding, until consumers get messages from the owner"):
            self._kubectl.run("delete", "rotb", "orders", "-n", "default", timeout=SETTLED_S)
            wait_until(self._unbound, SETTLED_S, "brokers of the pool have no binding", pause=0.5)
            self._await_messages("pool", 1)
        self._await_messages("pool", STEADY)
        logs = [pods.end("pool")]
        with self._report.timed("give consumers the service URL of the owner, until they get messages"):
            pods.consumers("owner", OWNER_URL)
            self._await_messages("owner", 1)
        self._await_messages("owner", STEADY)
        sent = judging.sent(pods.end("publisher"))
        wait_until(lambda: not any(pods.backlogs().values()), SETTLED_S, "the backlogs at the owner are 0", pause=1)
        logs.append(pods.end("owner"))
        compared.append(self._compare())
        self._report.published = sent.count
        self._report.losses = judging.losses(sent.count, judging.received(*logs), PLAN)
        wrong = judging.verdicts(self._report.losses, sent.count, sent.failed)
        wrong += [f"the comparison of the guide: {said.strip()}" for said in compared if "lost=0" not in said]
        wrong += [f"{name} was not served by the pool" for name in PLAN if not served.get(name)]
        return wrong

    def _compare(self) -> str:
        """Run the comparison of the guide; return its output. It also fails if messages came again, as the guide allows."""
        try:
            return self._shell.run(find(ADOPT, "python examples"))
        except AssertionError as error:
            return str(error)

    def _await_messages(self, pod: str, count: int) -> None:
        """Wait until each subscription has got so many messages in a pod after the newest one that any has got there before."""
        begun = judging.newest(judging.received(self._pods.log(pod)))

        def arrived() -> bool:
            got = judging.received(self._pods.log(pod))
            return all(judging.newest({name: got[name]} if name in got else {}) >= begun + count for name in PLAN)

        self._pods.wait(f"{count} more messages at each subscription", arrived, pod, SETTLED_S)

    def _served(self) -> dict[str, int]:
        """Return the messages that brokers of the pool have read and sent themselves, by subscription."""
        found: dict[str, int] = {}
        for broker in self._brokers():
            topics = self._broker(broker, "/stats")["topics"]
            for name, one in topics.get(TOPIC, {}).get("subscriptions", {}).items():
                if "servedBy" not in one:
                    found[name] = found.get(name, 0) + one["msgOutCounter"]
        return found

    def _unbound(self) -> bool:
        return all(not self._broker(broker, "/bindings")["bindings"] for broker in self._brokers())

    def _brokers(self) -> list[str]:
        pods = self._kubectl.json("get", "pods", "-n", "default", "-l", f"{GROUP}/pool={POOL}")["items"]
        return [pod["metadata"]["name"] for pod in pods]

    def _broker(self, pod: str, path: str) -> Any:
        return json.loads(self._kubectl.run("get", "--raw", f"/api/v1/namespaces/default/pods/{pod}:8080/proxy{path}"))

    # -- what is left -----------------------------------------------------------------------------------------------

    def _remove(self, objects: set[str], nodes: set[str]) -> None:
        """Remove everything as the pages say, and record what is left of it."""
        with self._report.timed("delete pool, operator and definitions"):
            self._kubectl.run("delete", "robp", POOL, "-n", "default", timeout=SETTLED_S)
            self._shell.run(find(TUTORIAL, "kubectl delete"), "kubectl delete -f examples")
            self._kubectl.run("delete", "-f", str(self._release.folder / "crds.yaml"), timeout=SETTLED_S)
        left: list[str] = []
        try:
            wait_until(lambda: not self._marks(), SETTLED_S, "no broker of the pool consumes at the owner", pause=1)
        except DevstackError:
            left = self._marks()
        self._pods.down()
        wait_until(
            lambda: not judging.live(self._nodes(), POOL),
            SETTLED_S,
            "registrations and claims of the pool have ended",
            pause=2,
        )
        self._shell.run(find(ADOPT, "bin/pulsar zookeeper-shell"))
        left += judging.left(nodes, self._nodes(), judging.KEPT)
        try:
            wait_until(lambda: self._as_before(objects), SETTLED_S, "Kubernetes is as before", pause=2)
        except DevstackError as error:
            say(str(error))
            left += judging.left(objects, self._objects())
        self._report.left = left

    def _as_before(self, objects: set[str]) -> bool:
        try:
            return not judging.left(objects, self._objects())
        except DevstackError:
            return False  # a kind has ended between the list of kinds and that of its objects

    def _marks(self) -> list[str]:
        return [f"consumer of a broker: {one}" for one in judging.marks(self._pods.stats())]

    def _nodes(self) -> set[str]:
        shell = ("zookeeper-shell", "-server", "localhost:2181", "ls", "-R", "/")
        found = judging.znodes(self._kubectl.run(*_ZOOKEEPER, *shell, timeout=SETTLED_S))
        if "/admin" not in found:
            raise DevstackError("zookeeper-shell does not list /admin, which every Pulsar has")
        return found

    def _objects(self) -> set[str]:
        kinds = set(self._kubectl.run("api-resources", "--verbs=list", "-o", "name").split()) - _IGNORED
        listed = ("get", ",".join(sorted(kinds)), "-A", "--no-headers", "--ignore-not-found", "-o", _COLUMNS)
        return judging.objects(self._kubectl.run(*listed, timeout=SETTLED_S))


def check_version(said: str, version: str, commit: str) -> None:
    """Check the output of `pulsar-readonly --version`.

    Raises:
        DevstackError: version or commit is another one, or a C module is missing.
    """
    expected = [f"pulsar-readonly {version}", f"commit: {commit}", f"native modules: {', '.join(native.MODULES)}"]
    if lacking := [line for line in expected if line not in said.splitlines()]:
        raise DevstackError(f"pulsar-readonly --version of the wheel does not say {'; '.join(lacking)}", said)


def wrong_containers(pods: list[dict[str, Any]], prefix: str) -> list[str]:
    """Return the containers whose image is not of the registry, or is never pulled; and an error if there is no pod.

    Args:
        pods: as kubectl shows them.
        prefix: of the images' names.
    """
    wrong = [] if pods else ["there is no pod"]
    for pod in pods:
        wrong += [
            f"{pod['metadata']['name']} has {one['image']}, pulled {one.get('imagePullPolicy')}"
            for one in pod["spec"]["containers"]
            if not one["image"].startswith(f"{prefix}/") or one.get("imagePullPolicy") == "Never"
        ]
    return wrong


def checked(report: Report, release: Artefacts) -> int:
    """Check the release's checksums, and return the number of its files."""
    with report.timed("check the files by sha256sum"):
        return check_sums(release.folder)
