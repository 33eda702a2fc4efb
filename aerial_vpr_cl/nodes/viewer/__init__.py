"""What RViz and Foxglove are shown of a flight, in standard messages."""
