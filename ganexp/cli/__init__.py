"""Hydra, runs and sweeps, resuming, and errors as users see them: the only room that imports Hydra.

What a user can mend is a `UserError` everywhere in this room, and ends the command with its sentence.
"""
