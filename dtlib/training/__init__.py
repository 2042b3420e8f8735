"""A training run: the loop, its tasks, what it writes down and what it goes on from."""
