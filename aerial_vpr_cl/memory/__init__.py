"""What is kept of flown missions: scoring, allocation, strategies, the bounded replay buffer."""
