"""Lever Farm's host side. `from orchestrator import sweep` runs a sweep; nothing is imported before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.api import SweepResult, sweep

__all__ = ["SweepResult", "sweep"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from orchestrator import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
