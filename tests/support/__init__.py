"""What the tests share: projects to serve, a JSON-RPC client, clean environments, processes."""
