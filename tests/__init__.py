"""The tests: real servers, real command lines, real projects."""
