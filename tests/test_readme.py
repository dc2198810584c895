"""The README keeps its word: its Python runs and prints what it says, its commands exist."""

import re
import runpy
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from fastcell.cli import app

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
SHELL = re.findall(r"^```sh\n(.*?)^```", README, re.M | re.S)
COMMANDS = sorted(
    {
        line.split("#")[0].strip()
        for text in (*SHELL, *re.findall(r"`([^`\n]+)`", README))
        for line in text.splitlines()
        if line.startswith(("make ", "fastcell "))
    }
)


def command_named(words):
    """The command that the words lead to, and what is left of them."""
    command = get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    return command, words


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block{i}" for i in range(len(BLOCKS))])
def test_python_runs_and_prints_what_it_says(block, tmp_path, monkeypatch, capsys):
    """What follows `#` on a line that prints is what it prints."""
    script = tmp_path / "block.py"
    script.write_text(block)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script))
    said = re.findall(r"^print\(.*\)  # (.*)$", block, re.M)
    assert capsys.readouterr().out.splitlines() == said


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("make ")])
def test_make_has_the_target(line):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert {word for word in line.split()[1:] if "=" not in word} <= set(targets)


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("fastcell ")])
def test_fastcell_has_the_command(line):
    command, rest = command_named(shlex.split(line)[1:])
    assert not hasattr(command, "commands"), f"'{line}' names no command"
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in rest if word.startswith("--")} <= options


def test_the_readme_was_read():
    assert BLOCKS
    assert COMMANDS
