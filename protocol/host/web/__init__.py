"""Shared code of all web pages: drawings, colours, the style, and the server of live pages."""
