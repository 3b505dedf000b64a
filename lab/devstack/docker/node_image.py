"""A node image for kind, made without a registry: Debian's packages, kind's own files, and the devstack's Kubernetes."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.cache import content_key
from devstack.common.run import run
from devstack.console import step
from devstack.docker.engine import SOURCE, Engine
from devstack.kube import programs
from devstack.kube.layout import SOURCE as KUBE_SOURCE
from devstack.kube.layout import default_layout
from devstack.kube.system_images import ensure_pause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devstack.kube.layout import Layout

KIND: Final = programs.Build(
    name="kind",
    what="kind, kubeadm and crictl",
    module="kind",
    packages={"": ("sigs.k8s.io/kind", "k8s.io/kubernetes/cmd/kubeadm", "sigs.k8s.io/cri-tools/cmd/crictl")},
    stamp=programs.KUBE.stamp,
    versioned="k8s.io/kubernetes",
)
_SUITE: Final = "bookworm"
_PACKAGES: Final = (
    *("systemd", "conntrack", "iptables", "nftables", "iproute2", "ethtool", "util-linux", "mount", "kmod"),
    *("libseccomp2", "bash", "ca-certificates", "jq", "procps", "runc"),
)
_LEAVE_OUT: Final = "--dpkgopt=path-exclude=/usr/share/{doc,man,locale,info}/*"
_KUBERNETES: Final = "localhost/devstack/kubernetes:dev"
_ALIASES: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubectl", "etcd")
_APPLETS: Final = ("sh", "ip", "mv", "sleep", "printf")
_DEADLINE: Final = 1800.0


def ensure_node_image(engine: Engine) -> str:
    """Return the name of the node image, made unless the engine has it; kind and kubectl are linked for the namespaces.

    Raises:
        DevstackError: a program cannot be built, or the image cannot.
    """
    layout = default_layout()
    builds = (programs.KUBE, programs.NODE, programs.COREDNS, KIND)
    files = [
        SOURCE / name for name in ("node.Dockerfile", "kubernetes.Dockerfile", "coredns.Dockerfile", "pod-network.yaml")
    ]
    kube, node, coredns, kind = (programs.ensure(layout, build) for build in builds)
    engine.link("kind", kind / "kind")
    engine.link("kubectl", kube / "kubectl")
    key = content_key(_SUITE, *_PACKAGES, *(build.key() for build in builds), *files, Path(__file__))
    image = f"localhost/devstack/kind-node:{key}"
    if engine.run("docker", "image", "ls", "-q", image, what="looking for the node image").strip():
        return image
    with step("making the node image of kind"), _folder(engine) as folder:
        base = _import_debian(engine, folder)
        _build_kubernetes(engine, folder, kube / "kube")
        shutil.copy2(coredns / "coredns", folder / "coredns")
        coredns_image = "localhost/devstack/kind-coredns:dev"
        _docker_build(engine, folder, "coredns.Dockerfile", coredns_image)
        pause = ensure_pause(layout)
        engine.run("docker", "load", "-i", str(pause.archive), what="loading the pause image")
        names = {_KUBERNETES: _KUBERNETES}
        version = programs.KUBE.version()
        listing = [str(kind / "kubeadm"), "config", "images", "list", f"--kubernetes-version={version}"]
        listed = run(listing, what="asking kubeadm for its images")
        kind_files = _kind_files(layout)
        sandbox = re.search(r'sandbox_image = "(\S+)"', (kind_files / "etc/containerd/config.toml").read_text())
        for name in [*listed.split(), *([sandbox[1]] if sandbox else [])]:
            names[name] = pause.tag if "/pause:" in name else coredns_image if "/coredns:" in name else _KUBERNETES
        for name, source in names.items():
            engine.run("docker", "tag", source, name, what=f"naming {name}")
        engine.run(
            "docker", "save", "-o", str(folder / "images.tar"), *names, what="saving the images", timeout=_DEADLINE
        )
        _lay_out(folder, kind_files, kube, node, kind)
        _docker_build(engine, folder, "node.Dockerfile", image, "--build-arg", f"BASE={base}")
    return image


@contextmanager
def _folder(engine: Engine) -> Iterator[Path]:
    folder = engine.root / f".node-image.{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _kind_files(layout: Layout) -> Path:
    """Return the folder with the files of kind's base image, from its module's sources."""
    source = KUBE_SOURCE / "src" / "kind"
    version = programs.module_version((source / "go.mod").read_text(), "sigs.k8s.io/kind")
    files = programs.module_folder(layout, "sigs.k8s.io/kind", version) / "images" / "base" / "files"
    if not files.exists():  # the program is from a cache without the modules
        fetch = ["go", "mod", "download", "sigs.k8s.io/kind"]
        run(fetch, what="fetching the source of kind", timeout=900, env=programs.go_environment(layout), cwd=source)
    return files


def _import_debian(engine: Engine, folder: Path) -> str:
    tag = f"localhost/devstack/kind-debian:{content_key(_SUITE, *_PACKAGES, _LEAVE_OUT)}"
    if not engine.run("docker", "image", "ls", "-q", tag, what="looking for the base image").strip():
        archive = folder / "debian.tar"
        options = ["--quiet", "--variant=apt", f"--include={','.join(_PACKAGES)}", _LEAVE_OUT]
        run(["mmdebstrap", *options, _SUITE, str(archive)], what="making a Debian root file system", timeout=_DEADLINE)
        engine.run("docker", "import", str(archive), tag, what="importing the root file system")
        archive.unlink()
    return tag


def _build_kubernetes(engine: Engine, folder: Path, program: Path) -> None:
    """Build the image with the control plane's programs, nft with its libraries, and a shell."""
    root = folder / "kubernetes"
    (root / "usr" / "local" / "bin").mkdir(parents=True)
    shutil.copy2(program, root / "usr" / "local" / "bin" / "kube")
    for alias in _ALIASES:
        (root / "usr" / "local" / "bin" / alias).symlink_to("kube")
    (root / "bin").mkdir()
    (root / "tmp").mkdir()
    shutil.copy2(engine.programs / "bin" / "busybox", root / "bin" / "busybox")
    for applet in _APPLETS:
        (root / "bin" / applet).symlink_to("busybox")
    nft = shutil.which("nft", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or "/usr/sbin/nft"
    linked = re.findall(r"(/\S+) \(0x", run(["ldd", nft], what="libraries of nft"))
    for file in [Path(nft), *map(Path, linked)]:
        place = root / ("usr/sbin/nft" if str(file) == nft else str(file).lstrip("/"))
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    _docker_build(engine, folder, "kubernetes.Dockerfile", _KUBERNETES)


def _lay_out(folder: Path, kind_files: Path, kube: Path, node: Path, kind: Path) -> None:
    """Lay out the files of the node: kind's own below base/, programs and manifests below node/."""
    for part in ("usr", "etc", "kind"):
        shutil.copytree(kind_files / part, folder / "base" / part)
    run(["chmod", "-R", "u+w", str(folder / "base")], what="making kind's files writable")  # modules are read-only
    usr_bin, local = folder / "node" / "usr" / "bin", folder / "node" / "usr" / "local" / "bin"
    for made in (usr_bin, local, folder / "node" / "opt" / "cni" / "bin", folder / "node" / "kind" / "manifests"):
        made.mkdir(parents=True)
    shutil.copy2(kube / "kube", usr_bin / "kube")
    shutil.copy2(kind / "kubeadm", usr_bin / "kubeadm")
    shutil.copy2(kind / "crictl", local / "crictl")  # kind asks it which images a node has
    for alias in ("kubelet", "kubectl"):
        (usr_bin / alias).symlink_to("kube")
    for program in node.iterdir():
        if program.is_file():
            shutil.copy2(program, local)
    for plugin in (node / "cni").iterdir():
        shutil.copy2(plugin, folder / "node" / "opt" / "cni" / "bin")
    shutil.copy2(SOURCE / "pod-network.yaml", folder / "node" / "kind" / "manifests" / "default-cni.yaml")
    (folder / "node" / "kind" / "version").write_text(programs.KUBE.version())


def _docker_build(engine: Engine, folder: Path, dockerfile: str, tag: str, *options: str) -> None:
    arguments = ("docker", "build", "-q", "-t", tag, "-f", str(SOURCE / dockerfile), *options, str(folder))
    engine.run(*arguments, what=f"building {tag}", timeout=_DEADLINE)
