"""Which phones a `phones=` value means."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

from orchestrator.entities import Device, DeviceState
from orchestrator.errors import ConfigError

ANY = "any"
WORDS = ("each", ANY)
KEYS = ("soc", "tag", "ram_gb_min")


def select(devices: Sequence[Device], selector: str) -> list[Device]:
    """Phones, by name, that match one of the comma-joined terms: `each` or `any` (all that are not retired), a name,
    `soc:…`, `tag:…`, `ram_gb_min:…`; `any:` before the terms selects the same phones (see `any_one`). Raises
    ConfigError for a term that means nothing or matches no phone."""
    present = [d for d in devices if d.state is not DeviceState.RETIRED]
    if not present:
        raise ConfigError("no phone is registered", "Register one: lever phones register virtual:oneplus12")
    chosen = {d.name: d for term in _terms(selector, present) for d in _matching(term, present, devices)}
    return [chosen[name] for name in sorted(chosen)]


def candidates(devices: Sequence[Device], selector: str) -> list[Device]:
    """Phones that it means now; none when what it selected is gone."""
    try:
        return select(devices, selector)
    except ConfigError:
        return []


def any_one(selector: str) -> bool:
    """Whether a trial runs on one of the selected phones (`any`, `any:soc:…`) rather than on each of them."""
    return selector.strip() == ANY or selector.strip().startswith(f"{ANY}:")


def _terms(selector: str, present: Sequence[Device]) -> list[str]:
    terms = [t.strip() for t in selector.strip().removeprefix(f"{ANY}:").split(",") if t.strip()]
    if not terms:
        raise ConfigError(f"phones={selector!r} selects nothing", _what_there_is(present))
    if ANY in terms and len(terms) > 1:
        others = ",".join(t for t in terms if t != ANY)
        raise ConfigError(f"phones={selector!r}: 'any' stands alone or in front", f"Write phones='any:{others}'.")
    return terms


def _matching(term: str, present: Sequence[Device], known: Sequence[Device]) -> list[Device]:
    if term in WORDS:
        return list(present)
    if named := [d for d in present if d.name == term]:
        return named
    key, colon, value = term.partition(":")
    if not colon:
        raise _unknown_name(term, present, known)
    if key not in KEYS:
        close = difflib.get_close_matches(key, KEYS, n=1)
        hint = f"Did you mean {close[0]}:{value}? " if close else ""
        raise ConfigError(f"phones={term!r}: {key!r} is not a selector", f"{hint}Selectors: {', '.join(KEYS)}, a name.")
    found = [d for d in present if _test(term, key, value)(d)]
    if not found:
        raise ConfigError(f"phones={term!r} matches no phone", _what_there_is(present))
    return found


def _test(term: str, key: str, value: str) -> Callable[[Device], bool]:
    if key == "soc":
        return lambda d: str(d.facts.get("soc", "")).lower() == value.lower()
    if key == "tag":
        return lambda d: value in d.tags
    try:
        least = float(value)
    except ValueError:
        raise ConfigError(f"phones={term!r}: {value!r} is not a number", "For example ram_gb_min:12") from None
    return lambda d: ram_gb(d) >= least


def ram_gb(device: Device) -> float:
    """What the phone is sold with, as far as facts tell: `ram_mb` (10^6 bytes) in GB."""
    return float(device.facts.get("ram_mb", 0)) / 1000


def _unknown_name(term: str, present: Sequence[Device], known: Sequence[Device]) -> ConfigError:
    if any(d.name == term for d in known):
        return ConfigError(f"phone {term!r} is retired", f"Register it again. {_what_there_is(present)}")
    close = difflib.get_close_matches(term, [d.name for d in present] + list(WORDS), n=3)
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    return ConfigError(f"no phone is called {term!r}", hint + _what_there_is(present))


def _what_there_is(present: Sequence[Device]) -> str:
    shown = [
        f"{d.name} (soc:{d.facts.get('soc', '?')}, {ram_gb(d):.3g} GB{''.join(f', tag:{t}' for t in d.tags)})"
        for d in present[:10]
    ]
    more = f" and {len(present) - 10} more: lever phones list" if len(present) > 10 else ""
    return f"There is: {'; '.join(shown)}{more}."
