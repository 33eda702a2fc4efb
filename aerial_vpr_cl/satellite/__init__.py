"""The pre-acquired map: rasters, virtual patches, static exemplar memory."""
