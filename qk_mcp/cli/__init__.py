"""The command line: one file a subcommand, which parses, asks the rooms below, and prints."""
