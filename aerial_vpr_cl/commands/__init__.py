"""One file a verb of the command line program aerial-vpr."""
