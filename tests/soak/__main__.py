"""`python -m tests.soak`, which is `make soak [SECONDS=7200] [SEED=0]`: prints its figures as JSON and writes them to
LEVER_HOME/soak-SEED.json. Exit code 1 when anything was not as it has to be; the soak's farm is kept then."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from orchestrator import settings as farm_settings
from tests.soak.soak import soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=7200.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--phones", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=2, help="of each of a sweep's trials")
    arguments = parser.parse_args()
    kept = farm_settings.load().home
    kept.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="soak-", dir=kept))
    figures = soak(home, arguments.seconds, arguments.seed, arguments.phones, arguments.repeats)
    text = json.dumps(figures, indent=2)
    (kept / f"soak-{arguments.seed}.json").write_text(text + "\n")
    print(text)
    if figures["violations"]:
        sys.stderr.write(f"error: {len(figures['violations'])} violations; the farm of this soak is kept: {home}\n")
        return 1
    shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
