"""A participant's own page: its progress, its scores together and alone, everything that it has sent.

Read from the state folder by a process of its own, which loads no torch. Needs the libraries of the extra `page`.
"""
