"""How the command line looks: messages, help, tables and the log."""
