"""Lesson 00: what it shows as the solution is what its checks hold for right."""

from __future__ import annotations

import ast
import inspect
import textwrap

import pytest

from dtlib.learn import source

from . import exercises as start_here

LESSON = source.find("00")


@pytest.mark.parametrize("name", list(start_here.EXERCISES))
def test_the_lesson_solves_it_as_the_check_does(name):
    """The solution that students see and the reference of `learn.given` are the same code."""
    own = inspect.getsource(start_here.EXERCISES[name].reference)
    reference = ast.parse(textwrap.dedent(own)).body[0]
    solution = ast.parse(LESSON.definition(name)).body[0]
    assert isinstance(reference, ast.FunctionDef)
    assert isinstance(solution, ast.FunctionDef)
    assert ast.dump(ast.Module(reference.body[1:], [])) == ast.dump(
        ast.Module(solution.body[1:], [])
    )
