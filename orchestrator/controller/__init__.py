"""The loop that brings trials to phones and results home. Plain asyncio; all durable state is in the registry."""

from orchestrator.controller.loop import Controller
from orchestrator.controller.timing import Timing

__all__ = ["Controller", "Timing"]
