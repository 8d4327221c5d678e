"""Hydra's command line as a function that raises instead of printing tracebacks and exiting.

`hydra.main` reports errors its own way and drops what the sweeper returns, so its few steps are taken here.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn
from hydra.types import RunMode
from omegaconf import DictConfig

from orchestrator.cli import completion
from orchestrator.errors import UsageError

PROGRAM = "lever sweep"
CONF, CONFIG_NAME = "pkg://orchestrator.conf", "config"
VERSION_BASE = "1.3"


def run_hydra(args: Sequence[str]) -> list[JobReturn]:
    """Do what the arguments say; one JobReturn for each job that was launched. Raises Hydra's own errors as they are
    and UsageError; argparse ends the process for flags that it does not know."""
    parser = get_args_parser()
    parser.prog = PROGRAM
    parser.add_argument("--dry-run", action="store_true", help="Print trials, phones and hours; run nothing.")
    parsed = parser.parse_intermixed_args(list(args))
    version.setbase(VERSION_BASE)
    _one_action(parsed)
    hydra = _application(parsed)
    try:
        if _shown(hydra, parser, parsed):
            return []
        return _launch(hydra, parsed)
    finally:
        GlobalHydra.instance().clear()


def _one_action(parsed: argparse.Namespace) -> None:
    actions = ("run", "multirun", "cfg", "info", "shell_completion", "dry_run")
    given = [name for name in actions if getattr(parsed, name)]
    if len(given) > 1 and set(given) not in ({"multirun", "cfg"}, {"multirun", "dry_run"}):
        raise UsageError(f"--{' and --'.join(given)} cannot be given together", "Give one of them.".replace("_", "-"))
    if parsed.resolve and not (parsed.cfg or parsed.help):
        raise UsageError("--resolve goes with --cfg or --help only", "For example: lever sweep --cfg job --resolve")
    if parsed.experimental_rerun is not None:
        raise UsageError(
            "--experimental-rerun is not supported", "Give the same overrides again: what is done is reused."
        )


def _application(parsed: argparse.Namespace) -> Hydra:
    search_path = create_config_search_path(parsed.config_path or CONF)
    if parsed.config_dir is not None:
        folder = os.path.abspath(parsed.config_dir)
        if not os.path.isdir(folder):
            raise UsageError(
                f"--config-dir {parsed.config_dir}: there is no such folder", "Name a folder of YAML groups."
            )
        anchor = SearchPathQuery(provider="schema")
        search_path.prepend(provider="command-line", path=f"file://{folder}", anchor=anchor)
    return Hydra.create_main_hydra2(task_name="lever-sweep", config_search_path=search_path)


def _shown(hydra: Hydra, parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> bool:
    """Handle the flags that show something instead of running."""
    name, overrides = parsed.config_name or CONFIG_NAME, parsed.overrides
    if parsed.help:
        hydra.app_help(config_name=name, args_parser=parser, args=parsed)
    elif parsed.hydra_help:
        hydra.hydra_help(config_name=name, args_parser=parser, args=parsed)
    elif parsed.cfg and not parsed.multirun:
        hydra.show_cfg(name, overrides, cfg_type=parsed.cfg, package=parsed.package, resolve=parsed.resolve)
    elif parsed.shell_completion:
        completion.strip_command()
        hydra.shell_completion(config_name=name, overrides=overrides)
    elif parsed.info:
        hydra.show_info(parsed.info, config_name=name, overrides=overrides)
    else:
        return False
    return True


def _launch(hydra: Hydra, parsed: argparse.Namespace) -> list[JobReturn]:
    """A single run is a sweep of one: both go through our sweeper and launcher."""
    overrides = OverridesParser.create().parse_overrides(parsed.overrides)
    mode = next((str(o.value()) for o in overrides if o.key_or_group == "hydra.mode"), "RUN")
    if not (parsed.multirun or mode == "MULTIRUN"):
        ConfigLoaderImpl.validate_sweep_overrides_legal(overrides, RunMode.RUN, from_shell=True)
    kept = [str(o.input_line) for o in overrides if o.key_or_group != "hydra.mode"]
    batches = hydra.multirun(
        config_name=parsed.config_name or CONFIG_NAME,
        task_function=_no_task,
        overrides=[*kept, *_shows(parsed), "hydra.mode=MULTIRUN"],
    )
    return [one for batch in batches for one in batch]


def _shows(parsed: argparse.Namespace) -> list[str]:
    """For our launcher: what to show of the batch instead of running it."""
    if parsed.dry_run:
        return ["hydra.launcher.show=plan"]
    if not parsed.cfg:
        return []
    package = [f"hydra.launcher.package={parsed.package}"] if parsed.package else []
    return [f"hydra.launcher.show={parsed.cfg}", f"hydra.launcher.resolve={bool(parsed.resolve)}", *package]


def _no_task(_config: DictConfig) -> None:
    raise UsageError("hydra/launcher is not lever: nothing else runs trials on phones", "Leave hydra/launcher out.")
