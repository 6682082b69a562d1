"""The command line: runs, sweeps, resuming and error messages. Only this room imports Hydra.

What a user can mend is a `UserError` everywhere in this room, and ends the command with its sentence.
"""
