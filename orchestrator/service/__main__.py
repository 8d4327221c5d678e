"""`python -m orchestrator.service`: what `lever up` starts in the background; also for systemd and the like."""

import sys

from orchestrator.errors import LeverError
from orchestrator.service.supervisor import supervise
from orchestrator.settings import load

if __name__ == "__main__":
    try:
        supervise(load())
    except LeverError as error:
        sys.exit(f"error: {error.message}\n{error.remedy}".strip())
