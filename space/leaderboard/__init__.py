"""What the Space is made of; it imports nothing of ours but its own modules."""
