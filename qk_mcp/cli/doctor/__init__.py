"""The checks of `qk-mcp doctor`."""
