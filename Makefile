# Type `make`: it lists what can be made.
#
#   make lab                       the course's own environment, .venv
#   make lab VENV=~/envs/torch     an environment that is there; nothing is installed into it
#   make install VENV=~/envs/torch install into that one, since you ask for it
#
# Written for GNU make 3.81 (macOS) and the BSD tools as well as for Linux.

.DEFAULT_GOAL := help
.PHONY: help lab lessons test test-slow bare ops notebooks lint book slides pdf install wheelhouse clean env

# Extras of pyproject.toml that .venv gets, and further options for pip (an index of CPU-only wheels, say).
EXTRAS ?= dev,lightning,logging,lora,book,deepspeed,workshop,s3,clinic
PIP_FLAGS ?=
# What JupyterLab is told: make lab LAB_FLAGS="--no-browser --port=9000"
LAB_FLAGS ?=
# What the tests are given: make test PYTEST_FLAGS="tests/ranks/test_launcher.py -x"
PYTEST_FLAGS ?=
# One lesson's tests, its room's and those that hold for every lesson: make test LESSON=07
LESSON ?=
# How many tests run side by side; make test PYTEST_JOBS=1 runs them one after another. Four keep two
# cores busy, because tests of hangs, browsers and killed ranks mostly wait.
PYTEST_JOBS ?= 4
SIDE_BY_SIDE = $(if $(filter-out 0 1,$(PYTEST_JOBS)),-n $(PYTEST_JOBS))

ifneq ($(filter command environment,$(firstword $(origin VENV))),)
  GIVEN := yes
  override VENV := $(patsubst ~/%,$(HOME)/%,$(VENV))
  # The checkout that you are in, whatever that environment has installed.
  export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))
else
  VENV := .venv
endif
PY := $(VENV)/bin/python
STAMP := $(VENV)/.dtlib-installed
# torchrun and its like are found by name.
export PATH := $(if $(filter /%,$(VENV)),$(VENV),$(CURDIR)/$(VENV))/bin:$(PATH)

# Where all durations stand: $(ENV_MINUTES) prints those of `make env`.
ENV_MINUTES = sed -n 's/^  env: {seconds: \([0-9]*\),.*/\1/p' book/durations.yaml | awk '{m = sprintf("%.0f", $$1 / 60); printf "%s minute%s", m, m == 1 ? "" : "s"}'

help: ## this list
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1|\2/p' Makefile | \
	  while IFS='|' read -r name what; do printf '  %-10s  %s\n' "$$name" "$$what"; done
	@echo
	@echo "The first one makes the environment .venv: $$($(ENV_MINUTES)) here, without a download;" \
	  "7 GB on Linux, less on a Mac."
	@echo "make TARGET VENV=path uses an environment that is there already, and installs nothing into it."

env: ## make the environment .venv, as every other target does first, and nothing else

lab: env ## open JupyterLab at lesson 00: the first command of a student
	@test -f notebooks/student/00_start_here.ipynb || "$(PY)" -m dtlib lessons build
	"$(PY)" -m jupyterlab $(ROOT_FLAG) $(LAB_FLAGS) notebooks/student/00_start_here.ipynb

# A page runs all cells of the student's notebook, each exercise first as the student finds it, then
# solved. A page that was made for the website is kept while nothing that it depends on has changed.
lessons: env ## build the notebooks and run every lesson that this machine can run
	"$(PY)" -m dtlib lessons build
	"$(PY)" -m dtlib lessons pages

test: env ## all tests but the slow ones; LESSON=07 for one lesson's alone
	LESSON="$(LESSON)" "$(PY)" -m pytest $(if $(LESSON),$(wildcard lessons_src/$(LESSON)_*) tests/lessons) $(if $(filter-out 0 1,$(PYTEST_JOBS)),-n $(PYTEST_JOBS)) $(PYTEST_FLAGS)

test-slow: env ## the slow tests: a browser, long runs
	"$(PY)" -m pytest -m slow $(SIDE_BY_SIDE) $(PYTEST_FLAGS)

bare: env ## the tests of what must hold without DeepSpeed and without a compiler
	DTLIB_BARE=1 "$(PY)" -m pytest tests/strategies/test_zero_config.py $(PYTEST_FLAGS)

ops: env ## compile DeepSpeed's operators, for strategies offload and infinity: once
	"$(PY)" -m dtlib ops build

notebooks: env ## write notebooks/ from lessons_src/
	"$(PY)" -m dtlib lessons build

lint: env ## style, types and layers
	"$(PY)" -m ruff check .
	"$(PY)" -m ruff format --check .
	"$(PY)" -m ruff check --config lessons_src/lesson.toml lessons_src/*/lesson.py
	"$(PY)" -m ruff format --config lessons_src/lesson.toml --check lessons_src/*/lesson.py
	"$(PY)" -m mypy -p dtlib $(patsubst lessons_src/%/__init__.py,-p %,$(wildcard lessons_src/*/__init__.py))
	"$(VENV)/bin/lint-imports"

book: env ## the pages and the executed lessons as a website in build/book/html
	@"$(PY)" book/make_site.py

slides: env ## a deck of slides for each lesson, in build/book/slides; LESSONS="00 07" for some
	@"$(PY)" book/make_slides.py $(LESSONS)

pdf: env ## print the built website as build/book/course.pdf, by Chromium
	@"$(PY)" book/make_pdf.py

install: ## install dtlib and its extras again, or into VENV=path if you name one
	@$(THERE)
	@$(INSTALL)

wheelhouse: ## fill build/wheelhouse for a USB stick: all wheels, the course, the site if it is built
	@$(THERE)
	"$(PY)" book/wheelhouse.py --extras "$(EXTRAS)" --pip-flags="$(PIP_FLAGS)"

clean: ## remove what was built and cached; .venv, runs and notebooks stay
	rm -rf build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache dtlib.egg-info
	find dtlib tests lessons_src -name __pycache__ -type d -prune -exec rm -rf {} +

# Jupyter refuses to run as root (in a container, say) unless it is told to.
ROOT_FLAG = $(if $(filter 0,$(shell id -u)),--allow-root)

# A named environment is looked at, never made and never cleared: it is yours.
ifeq ($(GIVEN),yes)
THERE = test -x "$(PY)" || { echo "There is no $(PY): name an environment that is there, or leave VENV out." >&2; exit 69; }
env:
	@$(THERE)
	@"$(PY)" -c 'import cloudpickle, jupytext, papermill, torch' || { \
	  echo "$(VENV) does not have the package named above: make install VENV=$(VENV)" >&2; exit 69; }
else
THERE = $(MAKE_VENV)
env: $(STAMP)

# The stamp comes last, so that an install that failed is tried again.
$(STAMP): pyproject.toml constraints.txt
	@$(MAKE_VENV)
	@$(INSTALL)
	@touch "$@"
endif

# The newest Python that is there, answers, and is not too old; pyenv's shims exist and do not answer.
# pip is told PIP_FLAGS when it renews itself, too, which venv's --upgrade-deps would keep from it; an
# older pip does as well, if it cannot.
define MAKE_VENV
if "$(PY)" -c 'import pip' 2>/dev/null; then exit 0; fi; \
for python in $$PYTHON python3.13 python3.12 python3.11 python3 python; do \
  "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
  echo "Making $(VENV) with $$("$$python" --version)"; \
  "$$python" -m venv --clear "$(VENV)" || exit; \
  "$(PY)" -m pip install --quiet $(PIP_FLAGS) --upgrade pip; exit 0; \
done; \
echo "The course needs Python 3.11 or newer with its venv module, and none was found: install one" \
  "(apt install python3 python3-venv; brew install python@3.13), or name it: make $(MAKECMDGOALS) PYTHON=path." >&2; \
exit 69
endef

define INSTALL
echo "Installing into $(VENV): a few minutes, and on Linux about 7 GB with torch's CUDA build."; \
echo "Its last step, 'Installing collected packages', takes the longest."; \
"$(PY)" -m pip install $(PIP_FLAGS) -c constraints.txt -e '.[$(EXTRAS)]' || { \
  echo "pip could not install (its reason is above); what is there is kept, and the same command goes on." >&2; exit 1; }
endef
