"""A training run: the loop, its tasks, its records and its checkpoints."""
