"""What both builders of the website need: local scripts in place of those on other machines.

The packages of npm lie in build/book/assets, where make_site.py puts them.
"""

from pathlib import Path

from sphinx.errors import ExtensionError

# Pages that are the README of another folder: what leads to the file there leads to the page here.
PAGES = {"(../slurm/README.md)": "(/cluster.md)", "(../docker/README.md)": "(/containers.md)"}
ASSETS = Path(__file__).resolve().parents[1] / "build" / "book" / "assets"


def setup(app):
    """Register with Sphinx."""
    app.connect("config-inited", _assets)
    app.connect("include-read", _to_pages)
    # After the line that holds MathJax's settings, and before MathJax itself, which is deferred.
    app.add_js_file("course.js", priority=900)
    app.add_css_file("course.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _assets(app, config):
    if not (ASSETS / "complete").exists():
        raise ExtensionError("the lessons' pages and scripts are not there yet: run `make book`.")
    config.html_static_path.append(str(ASSETS))


def _to_pages(app, path, parent, content):
    for link, page in PAGES.items():
        content[0] = content[0].replace(link, page)
