"""Serves a run as a live web page and as metrics, from its folder alone. Needs the extra `page`."""
