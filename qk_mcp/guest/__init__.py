"""The only code that runs inside a project's interpreter; it imports only the standard library and quickie."""
