"""Tests. What is set here is read when torch is imported, which comes after it."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle threads of one test would take the cores from all the others
