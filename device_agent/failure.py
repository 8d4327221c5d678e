"""The one exception of the agent: what `result.json` reports as AgentError."""

from __future__ import annotations

import errno

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the storage, a quota or a limit takes no more


class AgentFailure(Exception):
    """A job cannot go on. `kind` is one of the kinds that protocol.AgentError lists."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
