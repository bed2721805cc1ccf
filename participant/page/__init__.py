"""A participant's own web page: its progress, its scores in the federation and alone, everything that it has sent.

A separate process without torch reads them from the state folder. Needs the libraries of the extra `page`.
"""
