"""The tree of commands: the first level, the groups, how a command is declared, its help page.

The argument reader has a notation of its own (`{SPEC}`, `x>=1`), which differs from version to
version, and cuts sentences. On these pages arguments are names, and limits are words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from segre.cli.given import Parameter
from segre.cli.output import with_output
from segre.cli.renamed import current, current_options

FIRST = (
    *("analyze", "same", "diff", "dim", "explain", "compare", "explore"),
    *("certify", "verify", "model", "variety", "sweep", "reproduce", "doctor"),
)
SECTIONS = ("Look", "Inside", "Rewrite", "Origins", "Layers")  # of `segre model`


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


class Group(Page, TyperGroup):
    """Commands before options, each with its whole first sentence, in sections if it has any."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The commands, then the options of segre itself."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            title = command.rich_help_panel if command.rich_help_panel in SECTIONS else "Commands"
            sections.setdefault(title, []).append((name, _sentence(command.help)))
        for title in sorted(sections, key=("Commands", *SECTIONS).index):
            with formatter.section(title):
                formatter.write_dl(sections[title])
        with formatter.section("Options"):
            rows = (option_row(option, ctx) for option in self.get_params(ctx))
            formatter.write_dl([row for row in rows if row is not None])


class Front(Group):
    """The commands of segre, in the order of `FIRST`; old names lead to new ones."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """The names of the commands."""
        return sorted(self.commands, key=FIRST.index)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is asked for; if there is none, the error names the nearest ones."""
        args = current(args, ctx)
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


class Commands(typer.Typer):
    """A level of the tree, to which commands are added."""

    def answers(
        self,
        takes: str,
        examples: str,
        *,
        note: str = "",
        name: str | None = None,
        section: str | None = None,
        own: Mapping[str, Parameter] | None = None,
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Make a function a command that `takes` parameters, which are declared by their names.

        Its help page has `examples` as they are typed, and a `note` after them.
        """

        def added(command: Callable[..., None]) -> Callable[..., None]:
            end = epilog(examples, note)
            add = self.command(name, cls=Command, epilog=end, rich_help_panel=section)
            add(with_output(command, takes, own))
            return command

        return added


def epilog(examples: str, note: str = "") -> str:
    """The end of a help page: examples, one a line, and what there is to say after them."""
    lines = examples.split("\n")
    title = "Example:" if len(lines) == 1 else "Examples:"
    shown = "\n    ".join([title, *(line.strip() for line in lines)])
    return verbatim("\n\n".join(filter(None, [shown, note])))


def _group(name: str, about: str) -> Commands:
    group = Commands(cls=Group, help=about, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(group, name=name)
    return group


app = Commands(
    name="segre",
    cls=Front,
    help=verbatim("""Compare transformers as functions, and prove what an architecture can express.

Models to try it on   segre model demo
The same function?    segre same segre-demo/fine-tune segre-demo/moved
What changed?         segre diff segre-demo/base segre-demo/moved
One report on it      segre analyze segre-demo/base -o report.html
What is redundant?    segre explain gpt2
Which design?         segre compare llama-3-8b llama-3-8b/kv=32
Which dimension?      segre dim softmax/d=10,10,10/a=2,2/t=3
Prove it              segre certify softmax/d=4,4,4/a=2/t=3 -o cert.json
Does depth collapse?  segre model collapse bert-base-uncased --plot bert.png
Does a formula hold?  segre sweep run deep-softmax -o softmax.db"""),
    epilog=verbatim(
        "Every command has --help with examples, --json and --quiet; see docs/command-line.md.\n"
        "Exit codes: 0 answered, 1 no or invalid, 2 bad input, 3 inconclusive, 70 failed, "
        "130 interrupted."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
model = _group("model", "All else about models: look inside, rewrite, align, merge, find origins.")
look, inside, rewrite, origins, layers = (partial(model.answers, section=x) for x in SECTIONS)
variety = _group("variety", "The space of functions of a design: degree, critical points, samples.")
sweep = _group("sweep", "Test a claim exactly on thousands of architectures.")
