"""The operator's commands: they parse, call and print."""
