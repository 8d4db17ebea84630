"""Tests of the command line, which they run as a user would."""
