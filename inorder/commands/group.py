"""Groups of commands, and what they say of a name that nothing has."""

from collections.abc import Iterable
from difflib import get_close_matches

import click


def unknown(kind: str, name: str, names: Iterable[str]) -> str:
    """Say that nothing has a name, and which one may be meant; else, which there are."""
    spelled = {text.lower(): text for text in sorted(names)}
    for match in get_close_matches(name.lower(), spelled, n=1):
        return f"There is no {kind} {name}. Did you mean {spelled[match]}?"
    return f"There is no {kind} {name}. There are {', '.join(spelled.values())}."


class Group(click.Group):
    """Commands, of which one that is mistyped is suggested."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of these arguments."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            text = unknown("command", args[0], self.list_commands(ctx))
            raise click.UsageError(text, ctx) from None
