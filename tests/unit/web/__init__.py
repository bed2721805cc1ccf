"""Tests of protocol.host.web: drawings, addresses, what stands before a page."""
