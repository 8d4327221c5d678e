"""`lever phones fault NAME [FAULT [NUMBER]] [--clear]`: break a virtual phone on purpose, and mend it."""

from __future__ import annotations

import click


@click.command()
@click.argument("name")
@click.argument("fault", required=False)
@click.argument("number", required=False)
@click.option("--clear", is_flag=True, help="Everything as it was; what was killed or lost stays so.")
def fault(name: str, fault: str | None, number: str | None, clear: bool) -> None:
    """Break the virtual phone NAME, to see what the farm makes of it. Without FAULT: what there is, and what holds now.

    Lasting faults hold until --clear. NUMBER is what the list says, e.g. lever phones fault desk offline 30.
    """
    from orchestrator import settings as farm_settings
    from orchestrator.errors import UsageError
    from orchestrator.farm import phone_faults

    settings = farm_settings.load()
    if clear and fault:
        raise UsageError("--clear takes no fault: it mends everything", f"Run: lever phones fault {name} --clear")
    if clear:
        phone_faults.clear(settings, name)
        click.echo(f"{name}: all faults are cleared")
    elif fault is None:
        _list(name, phone_faults.active(settings, name))
    else:
        phone_faults.inflict(settings, name, fault, number)
        lasts = f" until: lever phones fault {name} --clear" if phone_faults.lasts(fault) else ""
        click.echo(f"{name}: {' '.join(filter(None, (fault, number)))}{lasts}")


def _list(name: str, active: dict[str, str]) -> None:
    from orchestrator.farm.phone_faults import FAULTS

    for fault, known in FAULTS.items():
        number = f" [{known.number}]" if known.number else ""
        holds = f"  ← holds now {active[fault]}".rstrip() if fault in active else ""
        click.echo(f"{fault + number:<30} {known.what}{' (lasts)' if known.lasts else ''}{holds}")
    if not active:
        click.echo(f"{name} has no fault now.")
