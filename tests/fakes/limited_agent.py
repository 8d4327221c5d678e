"""`python limited_agent.py JOB_DIR BUDGET_MB`: the agent under a limit of the kernel's, 10 % above the budget.

The limit counts private writable memory (RLIMIT_DATA), which cannot be taken back as page cache can; what the
interpreter had mapped but not touched when the job began comes on top.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from device_agent.run import run


def of_this_process(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))


def main() -> int:
    budget = int(float(sys.argv[2]) * 1e6)
    limit = of_this_process("VmData") - of_this_process("VmRSS") + budget * 11 // 10
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    return run(Path(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(main())
