"""What both builders of the website need: local scripts, the path, and the sidebar's progress.

make_site.py puts npm's packages into build/book/assets, and what is said about the lessons into
book/generated.
"""

import json
from pathlib import Path

from sphinx.errors import ExtensionError

# Pages that are the README of another folder: what leads to the file there leads to the page here.
PAGES = {
    "(../slurm/README.md)": "(/cluster.md)",
    "(../docker/README.md)": "(/containers.md)",
    "(kubernetes/README.md)": "(/kubernetes.md)",
    "(node/README.md)": "(/node.md)",
}
BOOK = Path(__file__).resolve().parent
ASSETS = BOOK.parent / "build" / "book" / "assets"
COURSE = BOOK / "generated" / "course.json"
SCRIPTS = ("progress.js", "figures.js", "search.js")


def setup(app):
    """Register with Sphinx."""
    app.connect("config-inited", _assets)
    app.connect("include-read", _to_pages)
    app.connect("html-page-context", _along_the_path)
    # After the line that holds MathJax's settings, and before MathJax itself, which is deferred.
    app.add_js_file("course.js", priority=900)
    for number, name in enumerate(SCRIPTS, start=901):
        app.add_js_file(name, priority=number)
    app.add_css_file("course.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _assets(app, config):
    if not ((ASSETS / "complete").exists() and COURSE.exists()):
        raise ExtensionError("the lessons' pages and scripts are not there yet: run `make book`.")
    config.html_static_path.append(str(ASSETS))


def _to_pages(app, path, parent, content):
    for link, page in PAGES.items():
        content[0] = content[0].replace(link, page)


def _along_the_path(app, name, template, context, doctree):
    """Give every page the path for its sidebar, and a lesson its neighbours on the path."""
    course = json.loads(COURSE.read_text("utf-8"))
    context["course_path"] = course["path"]
    context["course_quizzes"] = json.dumps(course["quizzes"])
    if name not in course["around"]:
        return
    link = app.builder.get_relative_uri
    for side, page in zip(("prev", "next"), course["around"][name], strict=True):
        title = app.env.titles[page].astext()
        context[side] = {"link": link(name, page), "title": title}
