"""What `qk-mcp inspect` shows, and its layout."""
