"""Budgets: units, who lends room and who takes it, canaries (design, section 5b)."""
