"""All that a team has: given out whole, and removed whole."""
