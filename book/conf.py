"""Sphinx's settings, all of them from _config.yml and _toc.yml, which Jupyter Book reads itself."""

import sys
from pathlib import Path

import yaml

_HERE = Path(__file__).parent
_config = yaml.safe_load((_HERE / "_config.yml").read_text("utf-8"))
_toc = yaml.safe_load((_HERE / "_toc.yml").read_text("utf-8"))

project = html_title = _config["title"]
author = _config["author"]
copyright = _config["copyright"]
exclude_patterns = _config["exclude_patterns"]
html_favicon = _config["html"]["favicon"]
html_static_path = ["_static"]
myst_enable_extensions = _config["parse"]["myst_enable_extensions"]
nb_execution_mode = _config["execute"]["execute_notebooks"]
nb_output_stderr = _config["execute"]["stderr_output"]
extensions = [
    "myst_nb",
    "sphinx_book_theme",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_togglebutton",
    *_config["sphinx"]["local_extensions"],
]
sys.path += [str(_HERE / path) for path in _config["sphinx"]["local_extensions"].values()]
globals().update(_config["sphinx"]["config"])


def _toctrees():
    """The parts of _toc.yml as Sphinx wants them, at the end of the first page."""
    text = ""
    for part in _toc["parts"]:
        text += f"\n\n```{{toctree}}\n:hidden:\n:caption: {part['caption']}\n\n"
        text += "\n".join(chapter["file"] for chapter in part["chapters"])
        text += "\n```\n"
    return text


def setup(app):
    """Add the table of contents; Jupyter Book's extension for it does not know this Sphinx."""

    def add(app, name, source):
        if name == _toc["root"]:
            source[0] += _toctrees()

    app.connect("source-read", add)
