"""Mutants of the lessons' solutions: which wrong answers would a check accept?"""
