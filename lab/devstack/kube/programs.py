"""The cluster's programs, built from Go modules once per content of sources, go.mod and go.sum."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from devstack.cache import content_key
from devstack.common.go_toolchain import program_path
from devstack.common.run import tail
from devstack.console import say, step
from devstack.errors import DevstackError
from devstack.kube.layout import SOURCE, Layout, default_layout

_SOURCES = SOURCE / "src"
_FLAGS = "-trimpath -buildvcs=false -mod=readonly"
_DEADLINE = 3600.0
_REPORT_EVERY = 20.0
_KUBE_PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)
_QUICK_COMPILE = "-dwarf=false -l"
"""Without debug information, which the linker drops anyway, and without inlining: a third less CPU to compile (measured with
client-go). The programs are somewhat slower, which a test cluster does not notice."""
_CONTAINERD = "github.com/containerd/containerd/v2"
_CNI = "github.com/containernetworking/plugins/plugins"


@dataclass(frozen=True, slots=True)
class Build:
    """One run of `go build`.

    Attributes:
        name: name of the folder under builds/, before its key.
        what: title for messages.
        module: folder under src/ with the go.mod.
        packages: packages to build, by folder below the build's folder; "" is the build's folder.
        links: further names of the first program.
        stamp: linker flags, a template in which {version} is the version of `versioned`, and {minor} its second part.
        versioned: module whose version the programs report.
        tags: Go build tags.
        compile_options: options of Go's compiler for all packages.
    """

    name: str
    what: str
    module: str
    packages: dict[str, tuple[str, ...]]
    links: tuple[str, ...] = ()
    stamp: str = ""
    versioned: str = ""
    tags: tuple[str, ...] = ()
    compile_options: str = ""

    def version(self) -> str:
        """Return the version of `versioned` in go.mod, such as v1.2.3; empty without `versioned`."""
        return module_version((_SOURCES / self.module / "go.mod").read_text(), self.versioned) if self.versioned else ""

    def key(self) -> str:
        """Return the content key of sources and flags."""
        compiled = (self.compile_options,) if self.compile_options else ()
        said = (repr(self.packages), repr(self.links), self.stamp, _FLAGS, *self.tags, *compiled)
        return content_key(_SOURCES / self.module, self.name, *said)

    def folder(self, layout: Layout) -> Path:
        """Return the folder of the programs."""
        return layout.builds / f"{self.name}-{self.key()}"


def module_version(go_mod: str, module: str) -> str:
    """Return the required version of a module in a go.mod.

    Raises:
        DevstackError: go.mod does not require the module.
    """
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise DevstackError(f"go.mod names no version of {module}")
    return found[1]


def _kubernetes_stamp() -> str:
    settings = ("gitVersion={version}", "gitCommit={version}", "gitMajor=1", "gitMinor={minor}", "gitTreeState=clean")
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {package}.{setting}" for package in packages for setting in settings)


KUBE = Build(
    name="kube",
    what="Kubernetes (etcd, control plane, kubelet, kube-proxy, kubectl in one program)",
    module="kube",
    packages={"": ("./cmd/kube",)},
    links=_KUBE_PROGRAMS,
    stamp=_kubernetes_stamp(),
    versioned="k8s.io/kubernetes",
    compile_options=_QUICK_COMPILE,
)
OLDEST_KUBE = Build(
    name="kube-oldest",
    what="the oldest Kubernetes that serves the custom resources",
    module="kube-oldest",
    packages={"": ("./cmd/kube",)},
    links=_KUBE_PROGRAMS,
    stamp=_kubernetes_stamp(),
    versioned="k8s.io/kubernetes",
    tags=("providerless",),  # without the volumes and registries of cloud providers
)
COREDNS = Build(
    name="coredns", what="CoreDNS", module="kube", packages={"": ("./cmd/coredns",)}, compile_options=_QUICK_COMPILE
)
NODE = Build(
    name="node",
    what="containerd and the CNI plugins",
    module="node",
    packages={
        "": tuple(f"{_CONTAINERD}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")),
        "cni": tuple(f"{_CNI}/{name}" for name in ("ipam/host-local", "main/bridge", "main/loopback", "meta/portmap")),
    },
    stamp=f"-X {_CONTAINERD}/version.Version={{version}}",
    versioned=_CONTAINERD,
    compile_options=_QUICK_COMPILE,
)
HELM = Build(
    name="helm",
    what="Helm",
    module="kube",
    packages={"": ("helm.sh/helm/v3/cmd/helm",)},
    stamp="-X helm.sh/helm/v3/internal/version.version={version}",
    versioned="helm.sh/helm/v3",
)
PROMTOOL = Build(
    name="promtool",
    what="promtool (checks of Prometheus rules)",
    module="prometheus",
    packages={"": ("github.com/prometheus/prometheus/cmd/promtool",)},
    tags=("remove_all_sd",),  # without service discoveries, which are the largest part and not needed here
)
CORE = (KUBE, COREDNS, NODE)
EXTRAS = {build.name: build for build in (HELM, PROMTOOL)}


def go_environment(layout: Layout) -> dict[str, str]:
    """Return the caller's environment, proxy and checksum settings included, with a new Go and its caches in the layout.

    Raises:
        DevstackError: see `program_path`.
    """
    return {
        # The compiler collects garbage for a tenth of its CPU, in processes that live for seconds.
        "GOGC": "400",
        **os.environ,
        "PATH": program_path(layout.cache),
        "GOMODCACHE": str(layout.cache / "gomod"),
        "GOCACHE": str(layout.cache / "gobuild"),
        "GOFLAGS": _FLAGS,
        "CGO_ENABLED": "0",
    }


def ensure(layout: Layout, build: Build) -> Path:
    """Build the programs if necessary; return their folder.

    Raises:
        DevstackError: Go is missing, or the build failed.
    """
    folder = build.folder(layout)
    if folder.exists():
        return folder
    if shutil.which("go") is None:
        raise DevstackError(
            f"{build.what}: the program go is missing",
            "make system, or install Go and put it on the PATH; an old one fetches the version that is needed",
        )
    draft = layout.builds / f".{folder.name}.{os.getpid()}"
    shutil.rmtree(draft, ignore_errors=True)
    version = build.version()
    flags = f"-s -w {build.stamp}".replace("{version}", version).replace("{minor}", ".".join(version.split(".")[1:2]))
    try:
        with step(f"building {build.what} {version}".strip()):
            for part, packages in build.packages.items():
                (draft / part).mkdir(parents=True, exist_ok=True)
                options = [f"-tags={','.join(build.tags)}"] if build.tags else []
                if build.compile_options:
                    options += ["-gcflags", f"all={build.compile_options}"]
                _go_build(layout, build, draft, [*options, "-ldflags", flags, "-o", f"{draft / part}/", *packages])
        for name in build.links:
            (draft / name).symlink_to(Path(build.packages[""][0]).name)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def find(name: str, build: Build) -> Path:
    """Return the path of a program: the locked one if it is built, or this machine's own, or a new build.

    Raises:
        DevstackError: Go is missing, or the build failed.
    """
    layout = default_layout()
    if not build.folder(layout).exists() and (found := shutil.which(name)):
        return Path(found)
    return ensure(layout, build) / name


def _go_build(layout: Layout, build: Build, draft: Path, arguments: list[str]) -> None:
    """Run `go build` with lines of progress, because a cold build takes minutes.

    Its temporary files are in the draft's folder: an interrupted Go leaves them.
    """
    downloaded = compiled = 0
    errors: list[str] = []
    next_report = time.monotonic() + _REPORT_EVERY
    with subprocess.Popen(
        ["go", "build", "-v", *arguments],
        cwd=_SOURCES / build.module,
        env={**go_environment(layout), "GOTMPDIR": str(draft)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        watchdog = threading.Timer(_DEADLINE, process.kill)
        watchdog.start()
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if line.startswith("go: downloading "):
                    downloaded += 1
                elif re.fullmatch(r"[\w.~/-]+\n", line):  # -v names each package as it is compiled
                    compiled += 1
                else:
                    errors.append(line)
                if time.monotonic() >= next_report:
                    say(f"  {downloaded} modules fetched, {compiled} packages compiled")
                    next_report += _REPORT_EVERY
        finally:
            watchdog.cancel()
            if process.poll() is None:
                process.terminate()
    if process.returncode != 0:
        raise DevstackError(f"building {build.what} failed with status {process.returncode}", tail("".join(errors)))


def module_folder(layout: Layout, module: str, version: str) -> Path:
    """Return the folder of a Go module's sources."""
    return layout.cache / "gomod" / f"{module}@{version}"


def link_programs(layout: Layout, folders: list[Path]) -> None:
    """Link the programs under stable names, for users and tests."""
    for program in (path for folder in folders for path in folder.iterdir() if not path.is_dir()):
        link_program(layout, program)


def link_program(layout: Layout, program: Path) -> None:
    """Link one program under its name."""
    layout.bin.mkdir(parents=True, exist_ok=True)
    draft = layout.bin / f".{program.name}.{os.getpid()}"
    draft.unlink(missing_ok=True)
    draft.symlink_to(program)
    draft.replace(layout.bin / program.name)


def prune(layout: Layout) -> None:
    """Remove builds with outdated content keys. Call it only while no cluster runs from them."""
    known = (*CORE, OLDEST_KUBE, *EXTRAS.values())
    wanted = {build.folder(layout).name for build in known}
    prefixes = tuple(f"{build.name}-" for build in known)
    for folder in layout.builds.iterdir() if layout.builds.exists() else ():
        if folder.name not in wanted and folder.name.startswith(prefixes):
            shutil.rmtree(folder)
