"""Base training and Learn-and-Dispose adaptation."""
