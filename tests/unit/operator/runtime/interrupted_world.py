"""A Kubernetes in memory that follows its own clock: its API server, what its controllers make, and HTTP servers of brokers.

Every request of the operator passes a wire, which can break once: before the request is applied, after that, or with a refusal.
"""

import datetime as dt
import enum
import json
import pickle
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from readonly_operator.cluster import fetch
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.digest import digest
from readonly_operator.kube.kinds import BINDING, CONFIG_MAP, POD, POOL, STATEFUL_SET, WATCHED, Kind
from readonly_operator.kube.names import ANNOTATION_BINDINGS_REVISION, BINDINGS_KEY, OPERATOR

from tests.support.yaml_documents import load_yaml

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
TEAM = "team"
WRITER = "writer"
LAC_KEY = "bookkeeperExplicitLacIntervalInMills"
STARTS = 2.0
"""Seconds that a broker takes to become ready."""
NODE_LABELS = {"topology.kubernetes.io/zone": "a"}


class KilledError(BaseException):
    """The operator's process ends here; nothing of it catches this."""


class Fault(enum.Enum):
    """What becomes of one request, and of the process that makes it."""

    KILLED_BEFORE = "killed before it is applied"
    KILLED_AFTER = "killed before the answer comes"
    CONFLICT = "409"
    FAILED = "500"
    THROTTLED = "429"
    UNANSWERED = "no answer, and not applied"
    LOST = "no answer, but applied"

    @property
    def kills(self) -> bool:
        return self in {Fault.KILLED_BEFORE, Fault.KILLED_AFTER}


class Wire:
    """Counts requests, and breaks one of them."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.fault: Fault | None = None
        self.at = -1

    def breaks(self, at: int, fault: Fault) -> None:
        self.requests, self.at, self.fault = [], at, fault

    def pass_on(self, label: str, do: Callable[[], Any]) -> Any:
        """What comes back is the caller's own: neither side sees what the other does to it."""
        self.requests.append(label)
        if len(self.requests) - 1 != self.at:
            return copied(do())
        match self.fault:
            case Fault.KILLED_BEFORE:
                raise KilledError
            case Fault.KILLED_AFTER:
                do()
                raise KilledError
            case Fault.UNANSWERED:
                raise KubeError("does not answer")
            case Fault.LOST:
                do()
                raise KubeError("does not answer")
            case _:
                assert self.fault is not None
                raise KubeError("not now", int(self.fault.value))


class World:
    """Objects by kind, namespace and name; what they were in between is kept too."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.objects: dict[tuple[str, str, str], Any] = {}
        self.events: list[tuple[Kind, str, Any]] = []
        self.history: dict[tuple[str, str], list[str]] = {}
        self.evicted: list[str] = []
        self.clusters: dict[str, Any] = {}
        self.held: dict[str, str] = {}
        self.started_with: dict[str, str] = {}
        self.lookup_history: dict[str, str] = {}
        self._version = 100
        self._made = 0

    def clock(self) -> float:
        return self.seconds

    def now(self) -> dt.datetime:
        return NOON + dt.timedelta(seconds=self.seconds)

    def stamp(self) -> str:
        return self.now().strftime("%Y-%m-%dT%H:%M:%SZ")

    # what users do

    def user_applies(self, body: dict[str, Any]) -> None:
        known = self.objects.get(_id(body))
        self.write({**copied(known or {}), **copied(body)}, "user")

    def user_deletes(self, kind: Kind, name: str) -> None:
        self.delete(self.objects[kind.kind, TEAM, name])

    # what the API server does

    def write(self, body: dict[str, Any], manager: str) -> dict[str, Any]:
        """Take an object as it is to be now; nothing happens when it is that already."""
        known = self.objects.get(_id(body))
        before = known["metadata"] if known else {}
        metadata = {**body["metadata"], "generation": before.get("generation", 0)}
        if known is None:
            self._made += 1
            metadata["uid"] = f"{body['kind']}-{metadata['name']}-{self._made}"
            metadata["creationTimestamp"] = self.stamp()
        else:
            metadata.update(uid=before["uid"], creationTimestamp=before["creationTimestamp"])
            if _without(before) == _without(metadata) and _rest(known) == _rest(body):
                return known
        if known is None or known.get("spec") != body.get("spec"):
            metadata["generation"] += 1
        others = [one for one in before.get("managedFields") or () if one["manager"] != manager]
        owned = {f"f:{key}": {} for key in body.get("data") or ()}
        own = {"manager": manager, "time": self.stamp(), "fieldsV1": {"f:data": owned}}
        metadata["managedFields"] = [*others, own]
        return self._keep({**body, "metadata": metadata}, "MODIFIED" if known else "ADDED")

    def delete(self, body: dict[str, Any]) -> None:
        body = self.objects[_id(body)]
        if not body["metadata"].get("finalizers"):
            self._remove(body)
        elif "deletionTimestamp" not in body["metadata"]:
            metadata = {**body["metadata"], "deletionTimestamp": self.stamp()}
            metadata["generation"] += 1
            self._keep({**body, "metadata": metadata}, "MODIFIED")

    def _keep(self, body: dict[str, Any], event: str) -> dict[str, Any]:
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        metadata = body["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self.objects[_id(body)] = body
            self._remove(body)
            return body
        self.objects[_id(body)] = body
        self._tell(event, body)
        if body["kind"] not in {"Event", "Pod"}:
            states = self.history.setdefault((body["kind"], metadata["name"]), [])
            state = json.dumps([body.get("spec"), body.get("data")], sort_keys=True)
            if not states or states[-1] != state:
                states.append(state)
        return body

    def _remove(self, body: dict[str, Any]) -> None:
        del self.objects[_id(body)]
        self._version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self._version)}
        self._tell("DELETED", {**body, "metadata": metadata})

    def _tell(self, event: str, body: dict[str, Any]) -> None:
        kind = next((one for one in WATCHED if one.kind == body["kind"]), None)
        if kind is not None and selected(kind, body):
            self.events.append((kind, event, copied(body)))

    # what the other controllers do

    def tick(self) -> None:
        """Let a second pass."""
        self.seconds += 1
        living = {body["metadata"]["uid"] for body in self.objects.values()}
        for body in list(self.objects.values()):
            owners = body["metadata"].get("ownerReferences") or ()
            if owners and not any(one["uid"] in living for one in owners) and _id(body) in self.objects:
                self.delete(body)
        for body in [one for one in self.objects.values() if one["kind"] == "StatefulSet"]:
            self._replicate(body)
        for pod in [one for one in self.objects.values() if one["kind"] == "Pod"]:
            self._run(pod)

    def pods(self, stateful_set: str) -> list[dict[str, Any]]:
        return [
            one
            for (kind, _, name), one in sorted(self.objects.items())
            if kind == "Pod" and name.rpartition("-")[0] == stateful_set
        ]

    def _replicate(self, body: dict[str, Any]) -> None:
        metadata, spec = body["metadata"], body["spec"]
        revision = digest(spec["template"])
        pods = self.pods(metadata["name"])
        wanted = {f"{metadata['name']}-{ordinal}" for ordinal in range(spec["replicas"])}
        for pod in pods:
            if pod["metadata"]["name"] not in wanted:
                self._remove(pod)
        for name in sorted(wanted - {pod["metadata"]["name"] for pod in pods}):
            self._start(body, name, revision)
        pods = self.pods(metadata["name"])
        old = [pod for pod in pods if pod["metadata"]["labels"]["controller-revision-hash"] != revision]
        if old and all(map(_ready, pods)):
            self._remove(old[-1])
            old.pop()
        status = {
            "observedGeneration": metadata["generation"],
            "replicas": len(pods),
            "updatedReplicas": len(pods) - len(old),
            "updateRevision": revision,
            "currentRevision": (body.get("status") or {}).get("currentRevision", revision) if old else revision,
        }
        if body.get("status") != status:
            self._keep({**body, "status": status, "metadata": dict(metadata)}, "MODIFIED")

    def _start(self, owner: dict[str, Any], name: str, revision: str) -> None:
        template = owner["spec"]["template"]
        labels = {**template["metadata"].get("labels", {}), "controller-revision-hash": revision}
        owned = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}
        reference = {**_kind(STATEFUL_SET), **owned}
        metadata = {"name": name, "namespace": TEAM, "labels": labels, "ownerReferences": [reference]}
        made = self.write({**_kind(POD), "metadata": metadata, "spec": {"nodeName": "node"}}, "kubelet")
        uid = made["metadata"]["uid"]
        if owner["metadata"]["name"] == WRITER:
            self.started_with[uid] = self.objects["ConfigMap", TEAM, WRITER]["data"].get(LAC_KEY, "0")
        self._mount(made)

    def _mount(self, pod: dict[str, Any]) -> None:
        bindings = self.objects.get(("ConfigMap", TEAM, f"{pod['metadata']['name'].rpartition('-')[0]}-bindings"))
        if bindings is not None:
            self.held[pod["metadata"]["uid"]] = bindings["data"][BINDINGS_KEY]

    def _run(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        said = (metadata.get("annotations") or {}).get(ANNOTATION_BINDINGS_REVISION, "")
        if said != self.lookup_history.get(metadata["uid"], ""):
            self.lookup_history[metadata["uid"]] = said
            self._mount(pod)
        age = (self.now() - dt.datetime.fromisoformat(metadata["creationTimestamp"])).total_seconds()
        if age >= STARTS and not _ready(pod):
            status = {
                "phase": "Running",
                "podIP": f"10.0.0.{metadata['uid'].rpartition('-')[2]}",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": self.stamp()}],
            }
            self._keep({**pod, "status": status, "metadata": dict(metadata)}, "MODIFIED")

    # what HTTP servers answer

    def exchange(self, wire: Wire, method: str, url: str, body: bytes | None) -> tuple[int, str, bytes]:
        """An HTTP request of the operator: to the owner brokers' admin API, or to a broker of the pool."""
        parts = urlsplit(url)
        pods = {(one.get("status") or {}).get("podIP"): one for one in self.objects.values() if one["kind"] == "Pod"}
        if parts.path.startswith("/admin/v2/clusters/"):
            name = parts.path.rpartition("/")[2]
            if method == "GET":
                return _answer(200 if name in self.clusters else 404, self.clusters.get(name))
            value = json.loads(body) if body else None
            return self._http(wire, method, lambda: self._set_cluster(name, value))
        if parts.path == "/admin/v2/brokers":
            return _answer(200, [f"{pod['status']['podIP']}:8080" for pod in self.pods(WRITER) if _ready(pod)])
        pod = pods.get(parts.hostname)
        if pod is None:
            raise fetch.FetchError("no route to host")
        uid = pod["metadata"]["uid"]
        if parts.path.endswith("/configuration/runtime"):
            return _answer(200, {"bookkeeperExplicitLacIntervalInMills": self.started_with[uid]})
        if parts.path.endswith("/health"):
            return 200, "", b"ok"
        assert parts.path == "/bindings", url
        config = load_yaml(self.held[uid])
        return _answer(200, {**config, "error": None, "bindings": [_matched(one) for one in config["bindings"]]})

    def _http(self, wire: Wire, method: str, do: Callable[[], None]) -> tuple[int, str, bytes]:
        """A request that changes something; what goes wrong with it is what HTTP clients see."""
        try:
            wire.pass_on(f"{method} cluster", do)
        except KubeError as error:
            if not error.status:
                raise fetch.FetchError("no answer in time") from None
            return error.status, "", b"not now"
        return 204, "", b""

    def _set_cluster(self, name: str, value: Any) -> None:
        self.clusters[name] = value
        if value is None:
            del self.clusters[name]

    # what is compared

    def state(self) -> dict[str, Any]:
        """Everything that is to be the same in the end, however it came to it."""
        names = {one["metadata"]["uid"]: "/".join(_id(one)) for one in self.objects.values()}
        found: dict[str, Any] = {"clusters": self.clusters}
        for key, body in self.objects.items():
            if key[0] != "Event":
                found["/".join(key)] = _comparable(body, names)
        found["evicted"] = sorted(self.evicted)
        found["writer runs with"] = [self.started_with[pod["metadata"]["uid"]] for pod in self.pods(WRITER)]
        found["brokers hold"] = {
            pod["metadata"]["name"]: self.held[pod["metadata"]["uid"]]
            for name in ("demo", "other")
            for pod in self.pods(name)
        }
        return found


class Server:
    """A Kube on a world, through a wire."""

    def __init__(self, world: World, wire: Wire) -> None:
        self.world = world
        self.wire = wire

    def get(self, kind, namespace, name):
        if kind.kind == "Node":
            return self._send("get", kind.kind, name, lambda: {"metadata": {"name": name, "labels": NODE_LABELS}})
        return self._send("get", kind.kind, name, lambda: self.world.objects.get((kind.kind, namespace, name)))

    def list(self, kind, namespace):
        def found():
            return [one for one in self.world.objects.values() if one["kind"] == kind.kind and selected(kind, one)]

        return self._send("list", kind.kind, "", found)

    def serves(self, kind, namespace):
        return self._send("list one", kind.kind, "", lambda: True)

    def apply(self, manifest):
        return self.apply_as(OPERATOR, manifest)

    def apply_as(self, manager, manifest):
        return self._send(
            "apply", manifest["kind"], manifest["metadata"]["name"], lambda: self._apply(manager, manifest)
        )

    def apply_status(self, manifest):
        def do():
            known = self._same(manifest)
            return self.world.write({**known, "status": copied(manifest["status"])}, OPERATOR)

        return self._send("status", manifest["kind"], manifest["metadata"]["name"], do)

    def annotate(self, kind, namespace, name, annotations):
        return self._send(
            "annotate",
            kind.kind,
            name,
            lambda: self._merge(kind, namespace, name, {"metadata": {"annotations": annotations}}),
        )

    def merge(self, manager, kind, namespace, name, patch):
        return self._send("merge", kind.kind, name, lambda: self._merge(kind, namespace, name, patch, manager))

    def delete(self, manifest):
        def do():
            known = self.world.objects.get(_id(manifest))
            if known is not None:
                self._same(manifest)
                self.world.delete(known)

        self._send("delete", manifest["kind"], manifest["metadata"]["name"], do)

    def evict(self, namespace, name, uid):
        def do():
            pod = self.world.objects.get(("Pod", namespace, name))
            if pod is not None and pod["metadata"]["uid"] == uid:
                assert all(map(_ready, self.world.pods(WRITER))), "a broker is restarted while another does not serve"
                self.world.evicted.append(name)
                self.world.delete(pod)
            return True

        try:
            return self._send("evict", "Pod", name, do)
        except KubeError as error:
            if error.status == 429:
                return False
            raise

    def may(self, right):
        return self._send("may", right.resource, right.name, lambda: True)

    def _send(self, verb, kind, name, do):
        return self.wire.pass_on(f"{verb} {kind} {name}".rstrip(), do)

    def _same(self, manifest):
        known = self.world.objects.get(_id(manifest))
        if known is None or known["metadata"]["uid"] != manifest["metadata"]["uid"]:
            raise KubeError("another uid", 409)
        return known

    def _apply(self, manager, manifest):
        """Server-side apply, with lists as a whole: what this manager has not named again goes."""
        if "uid" in manifest["metadata"]:
            self._same(manifest)
        known = self.world.objects.get(_id(manifest))
        metadata = {"finalizers": [], **((known or {}).get("metadata") or {})}
        before = metadata.get("applied") or {}
        body = _merged(_less(copied(known or {}), before.get(manager, {}), manifest), manifest)
        body["metadata"]["applied"] = {**before, manager: copied(manifest)}
        return self.world.write(body, manager)

    def _merge(self, kind, namespace, name, patch, manager=OPERATOR):
        known = self.world.objects.get((kind.kind, namespace, name))
        if known is None:
            return None
        version = patch["metadata"].get("resourceVersion")
        if version not in {None, known["metadata"]["resourceVersion"]}:
            raise KubeError("another version", 409)
        return self.world.write(_patched(copied(known), patch), manager)


def copied(value: Any) -> Any:
    """A deep copy, several times as quickly as copy.deepcopy makes one."""
    return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))


def selected(kind: Kind, body: dict[str, Any]) -> bool:
    """Whether lists and watches of a kind have an object."""
    labels = body["metadata"].get("labels") or {}
    terms = [term.partition("=") for term in kind.selector.split(",") if term]
    return all(name in labels and (not equals or labels[name] == value) for name, equals, value in terms)


def writable_brokers(world: World) -> None:
    """Two owner brokers, with explicit LAC off."""
    world.user_applies({**_kind(CONFIG_MAP), "metadata": {"name": WRITER, "namespace": TEAM}, "data": {LAC_KEY: "0"}})
    container = {"name": "broker", "envFrom": [{"configMapRef": {"name": WRITER}}]}
    template = {"metadata": {"labels": {"app": WRITER}}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "template": template}
    world.user_applies({**_kind(STATEFUL_SET), "metadata": {"name": WRITER, "namespace": TEAM}, "spec": spec})


def _kind(kind: Kind) -> dict[str, str]:
    return {"apiVersion": kind.api_version, "kind": kind.kind}


def _id(body: dict[str, Any]) -> tuple[str, str, str]:
    return body["kind"], body["metadata"]["namespace"], body["metadata"]["name"]


def _ready(pod: dict[str, Any]) -> bool:
    return bool((pod.get("status") or {}).get("conditions"))


def _answer(status: int, value: Any) -> tuple[int, str, bytes]:
    return status, "", json.dumps(value).encode()


def _matched(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "matched": {"topics": 1, "partitions": 0}}


def _without(metadata: dict[str, Any]) -> dict[str, Any]:
    left_out = {"managedFields", "resourceVersion", "applied"}
    return {name: value for name, value in metadata.items() if name not in left_out and value not in ([], {}, None)}


def _rest(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "metadata"}


def _merged(live: Any, wanted: Any) -> Any:
    if not isinstance(live, dict) or not isinstance(wanted, dict):
        return copied(wanted)
    return {**live, **{key: _merged(live.get(key), value) for key, value in wanted.items()}}


def _less(live: Any, before: Any, now: Any) -> Any:
    """A live value without the fields that were named before and are not now."""
    if not isinstance(live, dict) or not isinstance(before, dict):
        return live
    kept = {key: value for key, value in live.items() if key not in before or key in (now or {})}
    return {key: _less(value, before.get(key), (now or {}).get(key)) for key, value in kept.items()}


def _patched(live: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """JSON merge patch."""
    for key, value in patch.items():
        if value is None:
            live.pop(key, None)
        elif isinstance(value, dict):
            live[key] = _patched(live.get(key) or {}, value)
        else:
            live[key] = value
    return live


def _comparable(body: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """An object without what tells when and how often it was written."""
    metadata = body["metadata"]
    annotations = dict(metadata.get("annotations") or {})
    if body["kind"] == "Pod":
        annotations.pop(ANNOTATION_BINDINGS_REVISION, None)
    status = {**(body.get("status") or {})}
    status.pop("podIP", None)
    status["conditions"] = [
        {name: value for name, value in one.items() if name != "lastTransitionTime"}
        for one in status.get("conditions") or ()
    ]
    return {
        "generation": metadata["generation"],
        "labels": metadata.get("labels"),
        "annotations": {name: _renamed(value, names) for name, value in annotations.items()},
        "finalizers": metadata.get("finalizers") or [],
        "going": "deletionTimestamp" in metadata,
        "owners": [names.get(one["uid"], "nobody") for one in metadata.get("ownerReferences") or ()],
        "spec": body.get("spec"),
        "data": body.get("data"),
        "status": status if body["kind"] in {POOL.kind, BINDING.kind, "StatefulSet", "Pod"} else None,
    }


def _renamed(text: str, names: dict[str, str]) -> str:
    for uid, name in names.items():
        text = text.replace(uid, name)
    return text
