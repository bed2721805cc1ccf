"""A run as a live web page and as metrics, from its folder alone. Needs the libraries of the extra `page`."""
