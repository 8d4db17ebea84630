"""Runs: one run of a task, its output and its progress."""
