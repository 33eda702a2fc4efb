"""Where things are: the grid of cells and the projection beneath it."""
