"""One run of a task: its output, its progress and its end."""
