"""throttlectl: finds the command that was asked for, and turns errors into exit codes."""

import difflib
import importlib
import io
import os
import sys
from pathlib import Path
from typing import NoReturn

import click
from click.shell_completion import CompletionItem, get_completion_class

from throttle.cli.text import safe
from throttle.errors import LocalServerError, ThrottleError

_NAME = "throttlectl"
_LONGEST_ERROR = 2000

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Crawl on this machine, nothing to prepare": {
        "demo": ("demo", "Crawl a sample site politely and prove it."),
        "crawl": ("crawl", "Crawl the hosts of some URLs into one WARC file."),
        "up": ("service", "Run the whole service with its own RabbitMQ and Redis."),
    },
    "Hosts": {
        "add-host": ("hosts", "Make a host known and set its pace."),
        "set-host": ("hosts", "Change the pace of a known host."),
        "show-host": ("show_host", "Show one host, each layer of its pace, and why it waits."),
        "list-hosts": ("hosts", "List hosts, all or those that match a pattern."),
        "pause": ("stopping", "Let nothing new of a host start."),
        "block": ("stopping", "Let nothing new of a host start for a time."),
        "resume": ("stopping", "Let a paused or blocked host go on."),
        "refresh-robots": ("stopping", "Ask for a host's robots.txt again."),
        "remove-host": ("hosts", "Take a host out, with its URLs."),
    },
    "URLs": {
        "add-url": ("urls", "Add URLs from arguments, a file or standard input."),
    },
    "What a person decides": {
        "cases": ("cases", "List, show and close what a person should look at."),
        "dead": ("ends", "List URLs that were given up, or try them again."),
        "refused": ("ends", "List URLs that were refused or are forbidden."),
    },
    "The service": {
        "dispatch": ("service", "Run the dispatcher."),
        "drain": ("service", "Wait until nothing is left to fetch."),
        "reset": ("reset", "Begin the next generation with nothing seen."),
        "status": ("status", "Show what waits, what is under way and who is alive."),
        "audit": ("status", "Prove that every accepted URL lies in exactly one place."),
        "doctor": ("status", "Check both servers, the settings and the processes."),
    },
}
"""Per section and command: the module of throttle.cli that has it, and its one line of help."""

_PLACES = {name: place for commands in SECTIONS.values() for name, place in commands.items()}


class Commands(click.Group):
    """Commands that are imported when they are asked for: `--help` and typing errors stay quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the sections."""
        return [*_PLACES, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, from its module's `COMMANDS`."""
        if cmd_name not in _PLACES:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"throttle.cli.{_PLACES[cmd_name][0]}")
        commands: tuple[click.Command, ...] = module.COMMANDS
        return next(command for command in commands if command.name == cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that `args` begin with; another word gets the nearest name named."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0].lower(), known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            ctx.fail(f"no such command: {safe(args[0], 40)}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The sections, without importing a command."""
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, line) for name, (_, line) in commands.items()])
        others = [(name, self.commands[name]) for name in super().list_commands(ctx)]
        with formatter.section("Your shell"):
            formatter.write_dl([(name, command.get_short_help_str()) for name, command in others])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names that begin with `incomplete`, without importing a command."""
        lines = {name: line for name, (_, line) in _PLACES.items()}
        return [
            *(
                CompletionItem(name, help=lines.get(name))
                for name in self.list_commands(ctx)
                if name.startswith(incomplete)
            ),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]


def _print_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    # Here, because reading the metadata of packages takes a third of the time of --help.
    from importlib import metadata  # noqa: PLC0415

    try:
        number = metadata.version("throttle")
    except metadata.PackageNotFoundError:
        number = "unknown (throttle is not installed)"
    click.echo(f"{_NAME} {number}")
    ctx.exit()


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 good, 1 the promise or check failed, 2 usage, 3 a server can't be "
    "reached. A HOST or URL that begins with - comes after --.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Settings file instead of ./throttle.toml; THROTTLE_* in the environment go before it.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and end.",
)
def cli(config: Path | None) -> None:
    """Crawl politely: one bucket of tokens per host, on RabbitMQ and Redis."""
    if config is not None:
        # In the environment, so that the processes a command starts read the same file.
        os.environ["THROTTLE_CONFIG"] = str(config.resolve())


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands in your shell.

    \b
    bash:  throttlectl completion bash > ~/.local/share/bash-completion/completions/throttlectl
    zsh:   throttlectl completion zsh > a file _throttlectl in a folder of $fpath
    fish:  throttlectl completion fish > ~/.config/fish/completions/throttlectl.fish
    """
    found = get_completion_class(shell)
    if found is not None:
        click.echo(found(cli, {}, _NAME, "_THROTTLECTL_COMPLETE").source())


def main() -> NoReturn:
    """The console script: runs one command and ends the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without Unicode shows an escape rather than end the command.
            stream.reconfigure(errors="backslashreplace")
    try:
        cli.main(prog_name=_NAME)
    except ThrottleError as error:
        text = str(error)
        # A server's last log lines are shown as lines; any other error stays on one.
        shown = text.splitlines() if isinstance(error, LocalServerError) else [text]
        click.echo(f"{_NAME}: " + "\n".join(safe(line, _LONGEST_ERROR) for line in shown), err=True)
        sys.exit(error.exit_code)
    sys.exit(0)


if __name__ == "__main__":
    main()
