"""The written contract checked through HTTP, field by field and item by item."""
