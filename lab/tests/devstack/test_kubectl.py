"""kubectl and Helm ask a cluster what it has, not what another one at the same address had."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """#!/bin/sh
echo "$KUBECONFIG $KUBECACHEDIR $HOME"
test -d "$KUBECACHEDIR" || exit 3
"""
ASK = """
from pathlib import Path
import sys
from devstack.kube.kubectl import Kubectl
kubectl = Kubectl(sys.argv[1], Path(sys.argv[2]))
print(kubectl.run("get", "pods") + kubectl.run("get", "nodes"), end="")
"""


def asked(program: Path, kubeconfig: Path) -> list[list[str]]:
    """What two commands of one new process have in their environment."""
    command = [sys.executable, "-c", ASK, str(program), str(kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [line.split() for line in done.stdout.splitlines()]


def test_each_process_asks_the_cluster_itself_and_leaves_no_folder(tmp_path):
    program = tmp_path / "kubectl"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    first, second = asked(program, tmp_path / "config"), asked(program, tmp_path / "config")
    assert first[0] == first[1]  # one discovery a process
    assert first[0][0] == str(tmp_path / "config")
    assert first[0][1] != second[0][1]
    for kubeconfig, folder, home in (first[0], second[0]):
        assert not Path(folder).is_relative_to(home)
        assert not Path(folder).exists()
        assert kubeconfig == str(tmp_path / "config")
