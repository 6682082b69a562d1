"""From plain values to checked values to objects: the only package that knows all the others below it.

Functions named `refuse_…` and `try_…` raise a `UserError`.
"""
