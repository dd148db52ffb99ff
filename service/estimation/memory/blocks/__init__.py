"""What a block keeps from its forward to its backward pass, and the model that the run makes of its blocks."""
