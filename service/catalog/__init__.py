"""What the world publishes: devices, models, laws and measured runs, each with its source."""
