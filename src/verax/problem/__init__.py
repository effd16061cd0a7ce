"""What is asked: inputs, what a feature is, what it becomes, and whose score is followed."""
