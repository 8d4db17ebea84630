"""Which Python runs a project's tasks, and with which environment."""
