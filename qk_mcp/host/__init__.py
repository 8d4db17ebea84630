"""Starting, stopping and pooling guests: the interpreters that load and run a project's tasks."""
