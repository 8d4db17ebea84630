"""What `qk-mcp runs` shows: which runs, as a table, and the output of one."""
