#!/bin/sh
# Build the website: sh book/build.sh PYTHON. Pages and the students' notebooks are laid together
# in build/book/source, and Sphinx makes build/book/html of them. A warning is an error.
set -eu
python=$1
cd "$(dirname "$0")/.."
"$python" -c 'import myst_nb, sphinx_book_theme, sphinx_copybutton' || {
  echo "The website needs the package named above: pip install -c constraints.txt -e '.[book]'" >&2
  exit 69
}
source=build/book/source
rm -rf build/book
mkdir -p "$source/lessons"
cp book/*.md book/conf.py "$source"
cp notebooks/student/*.ipynb "$source/lessons"
"$python" -m sphinx -W --keep-going -q -b html "$source" build/book/html
echo "The website is in build/book/html; open build/book/html/index.html."
