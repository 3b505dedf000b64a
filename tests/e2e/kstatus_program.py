"""kstatus, the library by which Flux, Argo CD's relatives and `kubectl apply` tools tell how an object is, as a small program."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from devstack.cache import content_key
from devstack.clients.making import program
from devstack.kube.layout import default_layout
from devstack.kube.programs import go_environment

SOURCE = Path(__file__).parent / "kstatus"
BUILD_TIMEOUT_S = 600.0
GO_HINT = "run `make system`, or install Go; an old one fetches the version that is needed"


def ensure() -> Path:
    """The program, built once for each content of its folder; outside the tree."""
    layout = default_layout()
    made = layout.builds / f"kstatus-{content_key(SOURCE)}" / "kstatus"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        draft = made.with_name(f".kstatus.{os.getpid()}")
        environment = go_environment(layout)
        subprocess.run(
            [program("go", GO_HINT, environment["PATH"]), "build", "-ldflags", "-s -w", "-o", str(draft), "."],
            cwd=SOURCE,
            env=environment,
            check=True,
            timeout=BUILD_TIMEOUT_S,
        )
        draft.rename(made)
    return made


def compute(*objects: dict[str, Any]) -> dict[str, str]:
    """What kstatus makes of objects: Current, InProgress, Failed, Terminating, NotFound or Unknown, by KIND/NAME."""
    done = subprocess.run(
        [str(ensure())],
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return {name: found["status"] for name, found in json.loads(done.stdout).items()}
