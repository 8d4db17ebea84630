"""What the tests share: projects to serve, a raw client, a clean environment, a look at processes."""
