"""How the documentation is built: `make docs`.

Sphinx reads the repository from its root, so that every link between pages stands in the file as it is followed on a
code host: README.md, ARCHITECTURE.md and CHANGELOG.md are pages beside those of docs/. A link to any other file that
exists becomes a copy of it; one to a file, page or heading that does not exist fails the build, as does a public name
without a docstring. Nothing is fetched, neither by the build nor by the pages.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util import logging

project = "Sarameya"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = [f"{directory}*.md" for directory in ("", "docs/", "docs/reference/", "examples/")]
exclude_patterns = [".*", "build", "dist", "landing", "tests", "bench", "tools", "runtime", "handlers"]

html_theme = "furo"
html_title = project
html_show_sourcelink = False
html_show_copyright = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["tables.css"]

myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline"]

# Docstrings are written with Markdown's single backticks.
default_role = "code"
autodoc_member_order = "bysource"
maximum_signature_line_length = 100
autodoc_default_options = {"members": True, "undoc-members": True, "exclude-members": "__init__, __new__"}

# What other projects name has its page elsewhere, and nothing is fetched to find it; what is listed behind it is met by
# whoever looks into the embedded broker, or calls what is called for them.
nitpick_ignore_regex = [
    ("py:.*", r"(?!sarameya).*"),
    ("py:class", r"sarameya\.embedded\.(groups|network|log)\..*"),
    ("py:class", r"sarameya\.(testing\.virtual_time\.T|group\.membership\.leader\.RunSync)"),
    ("py:class", r"sarameya\.consumer\.partition_consumer\.PartitionConsumer"),
    ("py:class", r"sarameya\.group\.delivery\.time_slices\.HandlerTime"),
    ("py:class", r"sarameya_handlers\.spark\.tables\.row_count\.RowCount"),
]

_SECTIONS = Config(napoleon_use_ivar=True, napoleon_use_rtype=False)


def _read_docstring(_: Sphinx, what: str, name: str, obj: Any, __: Any, lines: list[str]) -> None:
    """Fields are told of by their class; whatever else is shown says itself what it is, in a Markdown of few means."""
    if what != "attribute" and not any(line.strip() for line in lines):
        logging.getLogger(__name__).warning("%s %s has no docstring", what, name, type="autodoc", subtype="docstring")
    if what in ("module", "class", "exception", "function", "method"):
        # Not as an extension: that would read the docstring of an attribute as "type: description".
        lines[:] = GoogleDocstring(lines, _SECTIONS, what=what, name=name, obj=obj).lines()
    lines[:] = restructured(lines)


def restructured(lines: list[str]) -> list[str]:
    """The same with an indented paragraph as code, a table as it stands, and `names`s of which there are several."""
    text: list[str] = []
    within = False
    for line in lines:
        starts = not text or not text[-1].strip()
        if line.startswith(("    ", "|")) and (within or starts):
            if not within:
                text += [".. code-block:: text" if line.startswith("|") else ".. code-block:: python", ""]
            within = True
            text.append(line if line.startswith("    ") else f"    {line}")
        else:
            within = within and not line.strip()
            text.append(line if within else re.sub(r"(`[^`]+`)(?=[A-Za-z])", r"\1\\ ", line))
    return text


def _draw(_: Sphinx, __: str, source: list[str]) -> None:
    """State diagrams as tables: code hosts draw Mermaid, and the pages load no script that could."""
    source[0] = re.sub(
        r"```mermaid\nstateDiagram-v2\n(.*?)```", lambda found: _transitions(found[1]), source[0], flags=re.S
    )


def _transitions(diagram: str) -> str:
    arrows = re.findall(r"^ *(\S+) --> (\S+)(?: : (.+))?$", diagram, re.M)
    rows = [f"| {before} | {by} | {after} |" for before, after, by in arrows if before != "[*]"]
    return "\n".join(["| state | input | next state |", "|---|---|---|", *rows, ""])


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", _read_docstring)
    app.connect("source-read", _draw)
