"""The agent's command line. Standard output carries JSON or nothing; of `sums` the lines of sha256sum."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from device_agent.waiting import set_waiting

USAGE = "usage: agent run JOB_DIR | probe [DIR] | flash DIR | stop JOB_DIR | sums <NAMES"
BAD_USAGE = 2
set_waiting()


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    match arguments:
        case ["run", folder] if Path(folder).is_dir():
            from device_agent.run import run

            return run(Path(folder))
        case ["probe", *rest] if len(rest) <= 1:
            from device_agent.probe import probe

            print(json.dumps(probe(Path(*rest))))
            return 0
        case ["flash", folder] if Path(folder).is_dir():
            from device_agent.probe import flash

            print(json.dumps(flash(Path(folder))))
            return 0
        case ["stop", folder]:
            from device_agent.stop import stop

            stop(Path(folder))
            return 0
        case ["sums"]:
            from device_agent.sums import sums

            with open(0, "rb", buffering=0, closefd=False) as given:  # byte by byte: what follows the names is not ours
                for line in sums(os.fsdecode(name).removesuffix("\n") for name in given):
                    print(line, flush=True)
            return 0
    print(f"{USAGE} (the folder must exist)", file=sys.stderr)
    return BAD_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
