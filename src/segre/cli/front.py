"""The front page: `segre --help`, with commands in the order in which users meet them."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from typer.core import TyperGroup

from segre.cli.help_page import option_row, write_epilog

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
            rows = (option_row(option, ctx) for option in self.get_params(ctx))
            formatter.write_dl([row for row in rows if row is not None])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Examples as they are typed, and sentences as wide as the page."""
        write_epilog(self.epilog, formatter)


class Front(Group):
    """The commands of segre, in the order of `ORDER`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands; those that are not in `ORDER` come last."""
        places = {name: place for place, name in enumerate(ORDER)}
        return sorted(super().list_commands(ctx), key=lambda name: places.get(name, len(places)))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is asked for; if there is none, the error names the nearest ones."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            if args and hasattr(error, "message"):
                error.message = f"No such command {args[0]!r}.{self._advice(args[0])}"
            raise

    def _advice(self, given: str) -> str:
        """What may be meant by a word that is no command."""
        for option in ("help", "version"):
            if given.lower() == option:
                return f" Did you mean segre --{option}?"
        paths = dict(self._paths())
        exact = [path for path, name in paths.items() if name == given]
        near = get_close_matches(given, sorted(set(paths.values())))
        found = exact or [path for name in near for path in paths if paths[path] == name]
        return f" Did you mean {' or '.join(found[:3])}?" if found else ""

    def _paths(self) -> Iterator[tuple[str, str]]:
        """Every command as it is typed, with its last word."""
        for name, command in self.commands.items():
            yield f"segre {name}", name
            for nested in getattr(command, "commands", ()):
                yield f"segre {name} {nested}", nested


def _sentence(text: str) -> str:
    """The first paragraph, on one line."""
    return " ".join(text.strip().split("\n\n")[0].split())
