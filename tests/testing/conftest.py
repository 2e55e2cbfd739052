"""What pytest leaves out here."""

from __future__ import annotations

# A project of its own, which test_sample_project.py runs.
collect_ignore = ["sample_project"]
