"""How the command line looks: messages, usage errors, help, tables and the log."""
