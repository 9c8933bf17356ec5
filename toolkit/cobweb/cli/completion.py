"""`cobweb completion`: the script that makes a shell complete commands, hosts and COBs."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from cobweb.cli._options import examples
from cobweb.cli._output import Output


@click.command(
    "completion",
    epilog=examples("cobweb completion bash", "cobweb completion zsh", "cobweb completion fish"),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    bash: add `eval "$(cobweb completion bash)"` to ~/.bashrc.
    zsh: add `eval "$(cobweb completion zsh)"` to ~/.zshrc, after compinit.
    fish: write the output to ~/.config/fish/completions/cobweb.fish.
    """
    found = get_completion_class(shell)
    assert found is not None, "click knows the three shells"
    completer = found(context.find_root().command, {}, "cobweb", "_COBWEB_COMPLETE")
    Output().write(completer.source().rstrip() + "\n")
