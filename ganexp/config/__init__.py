"""From plain values to checked values to objects. This package builds the parts of a run from all the others.

Functions named `refuse_…` and `try_…` raise a `UserError`.
"""
