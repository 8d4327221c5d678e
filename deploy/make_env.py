"""Write `.env` for docker-compose.yml with fresh passwords; one that is there is left alone. `make compose-env`."""

import os
import secrets
import sys
from pathlib import Path

VARIABLES = ("POSTGRES_PASSWORD",)


def make_env(path: Path) -> bool:
    """False when it was there: its passwords are in the database already."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with open(file, "w", encoding="ascii") as out:
        out.writelines(f"{name}={secrets.token_hex(24)}\n" for name in VARIABLES)
    return True


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ".env")
    print(f"{target}: {'made' if make_env(target) else 'left as it is'}")
