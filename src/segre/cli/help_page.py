"""The help page of a command: usage, arguments, options, examples, in plain words.

The argument reader has a notation of its own (`{SPEC}`, `x>=1`), which differs from version to
version, and cuts sentences. Here arguments are names, and limits are words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand

from segre.cli.renamed import current_options


class Page:
    """A help page that ends with examples as they are typed, and sentences as wide as the page."""

    epilog: str | None

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Paragraphs with indented lines as they are, others wrapped."""
        for paragraph in (self.epilog or "").strip().replace("\b\n", "").split("\n\n"):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(f"\b\n{paragraph}" if "\n  " in paragraph else paragraph)


class Command(Page, TyperCommand):
    """A command with such a help page; its options may be given by their old names."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words after the name of the command."""
        return super().parse_args(ctx, current_options(args, ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments by name; those that can be left out in brackets."""
        return ["[OPTIONS]", *arguments(self, ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then options."""
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        param: Any
        for param in self.get_params(ctx):
            if param.param_type_name == "argument":
                record = param.get_help_record(ctx)
                said = param.help if record is None else record[1]
                rows["Arguments"].append((param.metavar, re.sub(r"\s*\[required\]$", "", said)))
            elif (row := option_row(param, ctx)) is not None:
                rows["Options"].append(row)
        for title, listed in rows.items():
            if listed:
                with formatter.section(title):
                    formatter.write_dl(listed)


def arguments(command: Any, ctx: Any) -> Iterator[str]:
    """The arguments of a command, as its usage shows them."""
    for param in command.get_params(ctx):
        if param.param_type_name == "argument":
            name = param.metavar + ("..." if param.nargs == -1 else "")
            yield name if param.required else f"[{name}]"


def option_row(param: Any, ctx: Any) -> tuple[str, str] | None:
    """An option and its help; None if it is hidden."""
    record = param.get_help_record(ctx)
    return None if record is None else (record[0], _in_words(record[1]))


def _in_words(text: str) -> str:
    """Limits of a number, in words.

    >>> _in_words("How many.  [default: 4; x>=1]"), _in_words("A port.  [0<=x<=65535]")
    ('How many.  [default: 4; at least 1]', 'A port.  [0 to 65535]')
    >>> _in_words("A seed.  [default: 0; x>=0]")
    'A seed.  [default: 0]'
    """
    text = re.sub(r"; x>=0\]", "]", text)
    text = re.sub(r"([\d.]+)<=x<=([\d.]+)", r"\1 to \2", text)
    return re.sub(r"\bx>=([\d.]+)", r"at least \1", text)


def verbatim(text: str) -> str:
    r"""Help that is printed with its own line breaks instead of being refilled.

    >>> verbatim("Examples:\n    segre dim gpt2\n\nExit code 1: no.")
    '\x08\nExamples:\n    segre dim gpt2\n\n\x08\nExit code 1: no.'
    """
    return "\n\n".join(f"\b\n{paragraph}" for paragraph in text.split("\n\n"))
