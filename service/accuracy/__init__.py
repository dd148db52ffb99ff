"""How far quotes were from what was measured, and what the next quote learns from it."""
