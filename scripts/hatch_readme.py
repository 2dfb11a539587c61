"""The README as the package's description: what does an index show that has no checkout beside it?

Links to files of the checkout become plain text there, and pictures are left out: they would lead
nowhere. hatchling calls this when it builds.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"<picture>.*?</picture>", re.DOTALL)
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://)[^)\s]*\)")


def described(readme: str) -> str:
    """The text without relative links.

    >>> described("![A plot](docs/plot.png)\\n\\nSee [the tutorial](docs/tutorial.md#start).")
    'See the tutorial.'
    >>> described('<picture>\\n  <img src="docs/plot.png">\\n</picture>\\n\\nA plot.')
    'A plot.'
    """
    text = PICTURE.sub("", readme)
    return LINK.sub(lambda link: "" if link[1] else link[2], text).lstrip()


class Readme(MetadataHookInterface):
    """Sets `readme`, which pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called with the table [project]."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": described(text)}
