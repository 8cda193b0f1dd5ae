"""Sphinx configuration of the documentation: `make docs` uses it.

Sphinx reads the repository from its root, so that links between pages are the same here and on a code host. README.md,
ARCHITECTURE.md and CHANGELOG.md are pages beside those of docs/. A link to another file of the repository becomes a
copy of that file. A link to a missing file, page or heading fails the build, and so does a public name without a
docstring. Neither the build nor the pages fetch anything from the network.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
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

# Docstrings use Markdown's single backticks.
default_role = "code"
autodoc_member_order = "bysource"
maximum_signature_line_length = 100
autodoc_default_options = {"members": True, "undoc-members": True, "exclude-members": "__init__, __new__"}

# Names without a page of their own. Names of other projects: their inventories would have to be fetched. The others are
# internals that appear in signatures of public names.
nitpick_ignore_regex = [
    ("py:.*", r"(?!sarameya).*"),
    ("py:class", r"sarameya\.embedded\.(groups|network|log)\..*"),
    ("py:class", r"sarameya\.(testing\.virtual_time\.T|group\.membership\.leader\.RunSync)"),
    ("py:.*", r"sarameya\.type_variables\..*"),
    ("py:class", r"sarameya\.consumer\.partition_consumer\.PartitionConsumer"),
    ("py:class", r"sarameya\.asyncio\.portal\.Portal"),
    ("py:class", r"sarameya\.protocol\.offset_ledger\.OffsetLedger"),
    ("py:class", r"sarameya\.group\.(claim\.InFlight|delivery\.(report\.Doing|time_slices\.HandlerTime))"),
    ("py:class", r"sarameya_handlers\.spark\.tables\.row_count\.RowCount"),
    ("py:class", r"sarameya_handlers\.(landing\.stores\.store\.Store|spark\.tables\.table\.Leftover)"),
]

_SECTIONS = Config(napoleon_use_ivar=True, napoleon_use_rtype=False)


def _convert_docstring(_: Sphinx, what: str, name: str, obj: Any, __: Any, lines: list[str]) -> None:
    """Turn a docstring into reStructuredText, in place. Warn if it is missing, except for attributes."""
    if what != "attribute" and not any(line.strip() for line in lines):
        logging.getLogger(__name__).warning("%s %s has no docstring", what, name, type="autodoc", subtype="docstring")
    if what in ("module", "class", "exception", "function", "method"):
        # Not as a Sphinx extension, which would parse the docstring of an attribute as "type: description".
        lines[:] = GoogleDocstring(lines, _SECTIONS, what=what, name=name, obj=obj).lines()
    lines[:] = restructured(lines)


def restructured(lines: list[str]) -> list[str]:
    """Return a docstring's lines as reStructuredText.

    An indented paragraph becomes a code block, and a Markdown table is kept as text. A plural such as `name`s gets the
    escape that reStructuredText needs after a backtick.
    """
    text: list[str] = []
    in_block = False
    for line in lines:
        starts_paragraph = not text or not text[-1].strip()
        if line.startswith(("    ", "|")) and (in_block or starts_paragraph):
            if not in_block:
                text += [".. code-block:: text" if line.startswith("|") else ".. code-block:: python", ""]
            in_block = True
            text.append(line if line.startswith("    ") else f"    {line}")
        else:
            in_block = in_block and not line.strip()
            text.append(line if in_block else re.sub(r"(`[^`]+`)(?=[A-Za-z])", r"\1\\ ", line))
    return text


def _replace_diagrams(_: Sphinx, __: str, source: list[str]) -> None:
    """Replace Mermaid state diagrams by tables. Code hosts draw Mermaid, but these pages load no script for it."""
    source[0] = re.sub(
        r"```mermaid\nstateDiagram-v2\n(.*?)```", lambda found: _transitions(found[1]), source[0], flags=re.S
    )


def _transitions(diagram: str) -> str:
    """Return the transitions of a diagram as a Markdown table."""
    arrows = re.findall(r"^ *(\S+) --> (\S+)(?: : (.+))?$", diagram, re.M)
    rows = [f"| {before} | {by} | {after} |" for before, after, by in arrows if before != "[*]"]
    return "\n".join(["| state | input | next state |", "|---|---|---|", *rows, ""])


def _name_builtin_type(_: Sphinx, doctree: nodes.document) -> None:
    """Let `type[Exception]` in a signature name the builtin, not every attribute that is called `type`."""
    for reference in doctree.findall(pending_xref):
        if reference.get("reftarget") == "type":
            reference["reftarget"] = "builtins.type"


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", _convert_docstring)
    app.connect("doctree-read", _name_builtin_type)
    app.connect("source-read", _replace_diagrams)
