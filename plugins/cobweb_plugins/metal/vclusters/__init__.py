"""Virtual clusters: requests for machines, which machines they get, and until when.

What is asked for and what was chosen are decisions of the section `metal` (`_grants.py`). The
choice itself is pure (`_choice.py`).
"""
