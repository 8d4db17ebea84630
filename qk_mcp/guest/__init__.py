"""The only code that runs inside a project's interpreter: the standard library and quickie, nothing of ours."""
