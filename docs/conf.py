"""The site: `make docs`. Pages are Markdown (MyST), the API comes from docstrings (numpydoc)."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from stillspace import __version__  # noqa: E402

project = "stillspace"
copyright = "the stillspace developers"
author = "The stillspace developers"
version = release = __version__
SOURCE = "https://github.com/stillspace/stillspace/blob/main"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["gallery/**/*.ipynb", "gallery/**/*.zip"]
default_role = "literal"
nitpicky = False

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

myst_enable_extensions = ["deflist", "dollarmath", "colon_fence"]
myst_heading_anchors = 3

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 60,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "stillspace"
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": []}
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}


def leave_the_site(app, docname, source):  # noqa: ARG001
    """Turn links to files beside the site into links to the repository."""
    folder = (ROOT / "docs" / docname).parent

    def outside(match: re.Match[str]) -> str:
        target, anchor = match.group(1), match.group(2) or ""
        path = (folder / target).resolve()
        if path.is_relative_to(ROOT / "docs") or not path.exists():
            return match.group(0)
        return f"]({SOURCE}/{path.relative_to(ROOT)}{anchor})"

    source[0] = re.sub(r"\]\((\.\./[^)#\s]+)(#[^)\s]*)?\)", outside, source[0])


def setup(app):
    """Register the hook."""
    app.connect("source-read", leave_the_site)
