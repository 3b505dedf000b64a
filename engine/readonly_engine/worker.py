"""`python -m readonly_engine.worker INDEX ARGUMENTS`: one of the processes of `pulsar-readonly serve --workers N`."""

from __future__ import annotations

import sys

from readonly_engine.serve import run_worker

if __name__ == "__main__":
    sys.exit(run_worker(int(sys.argv[1]), sys.argv[2:]))
