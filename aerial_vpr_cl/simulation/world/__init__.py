"""The ground to fly over: a procedural world, or a raster of a real date."""
