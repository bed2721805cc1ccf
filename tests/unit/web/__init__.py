"""Tests of fedap_web: drawings, addresses, what stands before a page."""
