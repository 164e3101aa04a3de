"""The table of commands in throttle.cli.main tells the truth about the modules it names."""

import importlib
import subprocess
import sys
import time

from throttle.cli.main import SECTIONS, cli


def test_every_command_is_listed_once_and_found() -> None:
    """What --help lists is there, and what is there is listed."""
    listed = [
        (module, name)
        for commands in SECTIONS.values()
        for name, (module, _line) in commands.items()
    ]
    modules = {module for module, _ in listed}
    made = [
        (module, command.name)
        for module in modules
        for command in importlib.import_module(f"throttle.cli.{module}").COMMANDS
    ]
    assert sorted(listed) == sorted(made)


def test_help_and_completion_import_no_command() -> None:
    """They answer in a moment: no client library of a server is loaded for them."""
    code = (
        "import sys; from throttle.cli.main import cli;"
        "cli.main(['--help'], standalone_mode=False);"
        "print(sorted({'redis', 'pika', 'celery', 'pydantic', 'rich'} & set(sys.modules)))"
    )
    started_s = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert time.monotonic() - started_s < 5


def test_each_command_explains_itself() -> None:
    """--help of a command says more than its name."""
    for commands in SECTIONS.values():
        for name in commands:
            context = cli.make_context("throttlectl", [name], resilient_parsing=True)
            command = cli.get_command(context, name)
            assert command is not None
            assert len(command.help or "") > 20, name
