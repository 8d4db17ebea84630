"""What a project offers: its tasks, described by a guest, cached and listed."""
