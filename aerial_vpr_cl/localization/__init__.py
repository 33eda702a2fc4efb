"""From an image to a position with an honest covariance."""
