"""What pass costs hold for: this phone as it is built, this engine, these models and settings. Another value, another
key: costs under the old one are not found and not used."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from device_agent.protocol import ENGINE_VERSION
from orchestrator.entities import Device

PHONE = ("fingerprint", "soc", "cores", "flash_mb_s", "runtime")


def cost_key(device: Device, job: Mapping[str, Any]) -> str | None:
    """Of a JobSpec as JSON on this phone; None for a job without a draft model, which has no rounds to plan.

    The way of reading (O_DIRECT or buffered) shows only on the phone: the agent compares it.
    """
    if not job.get("draft_pack"):
        return None
    engine = job["engine"]
    phone = [device.serial, *(device.facts.get(name) for name in PHONE)]
    settings = [engine["threads"], engine["storage"]["mode"], engine["repack"]]
    if any((cores := engine.get("cores", {})).values()):
        settings.append(cores)
    if (placement := engine.get("placement", "cpu")) != "cpu":
        settings.append(placement)
    content = [phone, ENGINE_VERSION, job["target_pack"], job["draft_pack"], settings]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
