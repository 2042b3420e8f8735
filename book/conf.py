"""The website's settings. `make book` builds it from book/ and notebooks/student/."""

project = "Distributed training, from one laptop to a cluster"
author = "the contributors"
copyright = "the contributors; prose CC BY 4.0, code MIT"

extensions = ["myst_nb", "sphinx_copybutton"]
exclude_patterns = ["conf.py"]
html_theme = "sphinx_book_theme"
html_title = project
myst_enable_extensions = ["dollarmath"]
nb_execution_mode = "off"
