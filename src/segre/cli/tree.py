"""The tree of commands: the first level, the groups, and how a command is declared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperGroup

from segre.cli.given import Parameter
from segre.cli.help_page import Command, Page, option_row, verbatim
from segre.cli.output import with_output
from segre.cli.renamed import current

FIRST = (
    *("analyze", "same", "diff", "dim", "explain", "compare", "explore"),
    *("certify", "verify", "model", "variety", "sweep", "reproduce", "doctor"),
)
SECTIONS = ("Look", "Inside", "Rewrite", "Origins", "Layers")  # of `segre model`
LOOK, INSIDE, REWRITE, ORIGINS, LAYERS = SECTIONS


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
variety = _group("variety", "The space of functions of a design: degree, critical points, samples.")
sweep = _group("sweep", "Test a claim exactly on thousands of architectures.")
