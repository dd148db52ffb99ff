"""The three peaks of the worst device, their gaps and intervals, and the items that describe them."""
