"""The benchmark: qk-mcp beside quickie's own server and the floors that its goals name.

    python -m tests.bench [--rounds N] [--row NAME]… [--growth] [--whole] [--json]

Everything runs as real processes over stdio, in turn (A B C A B C …), in a clean environment, on projects of its
own. A wrong answer fails it; a slow one never does.
"""
