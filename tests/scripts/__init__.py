"""Each verb of the frontier on a real Redis: every reply, and what must not happen."""
