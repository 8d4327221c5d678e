"""The `lever` command: names mapped to modules lazily, so that `--help` answers at once, and one place for errors."""

from __future__ import annotations

import importlib
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import click

from orchestrator.cli import completion
from orchestrator.errors import LeverError

# name → (module, attribute, help): the help line is here so that `lever --help` imports no command.
COMMANDS = {
    "sweep": ("orchestrator.cli.sweep", "sweep", "Run a Hydra sweep (or one trial) on the farm's phones."),
    "attach": ("orchestrator.cli.sweep_control", "attach", "Follow a sweep until it is over."),
    "resume": ("orchestrator.cli.sweep_control", "resume", "Run again what failed or was cancelled of a sweep."),
    "cancel": ("orchestrator.cli.sweep_control", "cancel", "End a sweep; what is done stays."),
    "results": ("orchestrator.cli.results", "results", "Print a sweep's trials and their metrics."),
    "dashboard": ("orchestrator.cli.dashboard", "dashboard", "Open MLflow's UI and the farm's own pages."),
    "phones": ("orchestrator.cli.phones", "phones", "Register phones, see how they are, look after them."),
    "models": ("orchestrator.cli.models", "models", "Add, list and verify model pairs."),
    "bundle": ("orchestrator.cli.bundle", "bundle", "Build the runtime for real phones."),
    "calibrate": (
        "orchestrator.cli.calibrate",
        "calibrate",
        "Learn how often a pair's draft is right, on this machine.",
    ),
    "generate": ("orchestrator.cli.generate", "generate", "Run the engine on this machine, without a farm."),
    "up": ("orchestrator.cli.farm", "up", "Start the farm's service in the background."),
    "down": ("orchestrator.cli.farm", "down", "Stop what `lever up` started."),
    "host": ("orchestrator.cli.host", "host", "Lend this machine's phones to the farm of another."),
    "status": ("orchestrator.cli.farm", "status", "Show the service, its phones and its sweeps."),
    "demo": ("orchestrator.cli.demo", "demo", "Two virtual phones, a real sweep, a table."),
}
INTERRUPTED = 130  # what shells report for a command ended by Ctrl-C


class LazyGroup(click.Group):
    """A group that imports a command's module only when that command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"no command {args[0]!r}{_close(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, _, help_line) in COMMANDS.items()])


def _close(name: str) -> str:
    import difflib

    found = difflib.get_close_matches(name, COMMANDS, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lever-farm", prog_name="lever")
def lever() -> None:
    """Sweeps of speculative LLM decoding over a farm of ADB-connected phones."""


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the console script; always ends in SystemExit."""
    sys.exit(run(args))


def run(args: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code, whatever happened printed for a person."""
    try:
        code = _dispatch(list(sys.argv[1:] if args is None else args))
        sys.stdout.flush()
    except LeverError as error:
        return _say(error.message, error.remedy, error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _say(error.format_message(), _hint(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone, as in `lever results | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001  # last resort: a bug of ours must not print a traceback at people
        return _unexpected(error)
    return code


def _dispatch(args: list[str]) -> int:
    if completion.is_question(args):
        if (names := completion.commands(COMMANDS)) is not None:
            click.echo(" ".join(names))
            return 0
        args = ["sweep", *args]
    # Outside its standalone mode click returns the code of ctx.exit(), and otherwise what the command returned.
    code = lever.main(args=args, prog_name="lever", standalone_mode=False)
    return code if isinstance(code, int) else 0


def _say(message: str, remedy: str, code: int) -> int:
    click.echo(f"error: {message}", err=True)
    if remedy:
        click.echo(remedy, err=True)
    return code


def _hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return f"See `{context.command_path} --help`." if context else ""


def _unexpected(error: Exception) -> int:
    from orchestrator.settings import load

    summary, settings = f"unexpected {type(error).__name__}: {error}", load()
    try:
        log = _write_traceback(error, settings.logs)
    except OSError as refused:  # then the command most likely failed for the same reason
        cause = "" if isinstance(error, OSError) else f" (after: {' '.join(summary.split())})"
        remedy = "Set LEVER_HOME to a folder that you can write to, on a disk with free space."
        return _say(f"LEVER_HOME={settings.home} cannot be written: {refused}{cause}", remedy, 2)
    return _say(summary, f"This is a bug in Lever Farm; please report it with {log}.", 70)


def _write_traceback(error: Exception, logs: Path) -> Path:
    path = logs / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(traceback.format_exception(error)), errors="backslashreplace")
    return path


if __name__ == "__main__":
    main()
