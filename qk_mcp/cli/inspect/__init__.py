"""What `qk-mcp inspect` shows, and how it looks."""
