"""Look-ahead: search for an order that the local rules do not find, or prove that there is none."""
