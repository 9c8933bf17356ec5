"""The examples of every `--help` are command lines that Cobweb takes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import pytest

from cobweb.cli._group import COMMANDS, PLUGGED, cobweb


def _commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(cobweb, info_name="cobweb")
    yield "cobweb", cobweb
    for name in COMMANDS:
        command = cobweb.get_command(context, name)
        assert command is not None
        if name in PLUGGED and isinstance(command, click.Group):
            continue  # its plugin's tests see to it
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {each}", command.commands[each]) for each in command.commands)


def _examples() -> Iterator[tuple[str, str]]:
    for name, command in _commands():
        lines = (command.epilog or "").splitlines()
        found = [line.strip() for line in lines if line.startswith("  cobweb")]
        yield from ((name, line) for line in found)


def _parse(words: list[str]) -> None:
    """Parse a command line to its end, as a call does, without calling the command."""
    command: click.Command = cobweb
    context = cobweb.make_context("cobweb", words)
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        assert found is not None
        command = found
        context = command.make_context(name, rest, parent=context)


def test_every_command_has_an_example() -> None:
    assert {name for name, _ in _examples()} == {name for name, _ in _commands()}


@pytest.mark.parametrize(("name", "line"), list(_examples()), ids=str)
def test_an_example_is_right(name: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COBWEB_SITE", raising=False)
    words = shlex.split(line.partition(" > ")[0])
    assert words[0] == "cobweb"
    assert name in line
    _parse(words[1:])


def test_usage_says_which_references_may_be_left_out() -> None:
    usage = {name: command.get_usage(click.Context(command)) for name, command in _commands()}
    assert usage["status"].endswith("[REF]")
    assert usage["why"].endswith(" REF")
