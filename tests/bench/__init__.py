"""The benchmark: compares qk-mcp with quickie's own server and with programs that do nothing (floors).

    python -m tests.bench [--rounds N] [--row NAME]… [--growth] [--whole] [--json]

Everything runs as real processes over stdio, in turn (A B C A B C …), in a clean environment and with generated
projects. A wrong answer makes it fail; a slow one never does.
"""
