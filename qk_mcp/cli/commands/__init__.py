"""One module per subcommand: it parses its options, asks the packages below, and prints."""
