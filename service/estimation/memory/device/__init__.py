"""What one device holds of the model, whatever it computes: its pipeline stage, model states and their sharding, host memory."""
