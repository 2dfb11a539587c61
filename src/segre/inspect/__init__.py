"""What is odd in a model, and where? One recorded pass, and measures of it."""
