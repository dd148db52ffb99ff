"""What one device holds of the model: its pipeline stage, model states and their sharding, and what lies in host memory."""
