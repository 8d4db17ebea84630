"""Completion in shells: what `qk-mcp __complete SHELL …` answers when somebody presses Tab.

- `complete`: what may stand at the cursor.
- `scripts`: the scripts of the shells, the lines they send and read, and where they are installed.
- `cache`: the tasks of a project, kept between presses.
- `table`: writes `table.json`, the commands and options of the app. It is a module of its own because it needs
  cyclopts, whose import takes longer than Tab may.

Why not cyclopts' own completion: its scripts do not handle words that bash splits at colons (`db:migrate`,
`NAME:PATH`), and cannot complete what follows a task, because a project defines that and not the app.
"""
