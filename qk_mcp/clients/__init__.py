"""The known MCP clients, and the files in which they keep their servers."""
