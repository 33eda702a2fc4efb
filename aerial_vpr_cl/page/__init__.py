"""The report page: flights to look at in a browser, offline."""
