"""Who computes the scores in flight: PyTorch, or a runtime that was made for it, with the same answers."""
