"""The front page: `segre --help`, with commands in the order in which users meet them."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

ORDER = (
    *("analyze", "dim", "explain", "symmetries", "samples", "compare", "explore"),
    *("certify", "verify"),
    *("certify-optimum", "degree", "critical"),
    *("weights", "diff", "diagnose", "trace", "same", "move", "point", "recover", "ci"),
    *("run", "cost"),
    *("collapse", "paths", "sweep", "plot", "reproduce", "models", "demo", "doctor"),
)


class Group(TyperGroup):
    """Commands before options, each with its whole first sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Each command with its whole first sentence."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, _sentence(command.help or "")) for name, command in commands if command]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The commands, then the options of segre itself."""
        self.format_commands(ctx, formatter)
        with formatter.section("Options"):
            records = (option.get_help_record(ctx) for option in self.get_params(ctx))
            formatter.write_dl([record for record in records if record is not None])


class Front(Group):
    """The commands of segre, in the order of `ORDER`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands; those that are not in `ORDER` come last."""
        places = {name: place for place, name in enumerate(ORDER)}
        return sorted(super().list_commands(ctx), key=lambda name: places.get(name, len(places)))


def _sentence(text: str) -> str:
    """The first paragraph, on one line."""
    return " ".join(text.strip().split("\n\n")[0].split())


def verbatim(text: str) -> str:
    r"""Help that is printed with its own line breaks instead of being refilled.

    >>> verbatim("Examples:\n    segre dim gpt2\n\nExit code 1: no.")
    '\x08\nExamples:\n    segre dim gpt2\n\n\x08\nExit code 1: no.'
    """
    return "\n\n".join(f"\b\n{paragraph}" for paragraph in text.split("\n\n"))
