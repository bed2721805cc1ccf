"""What holds for every test: Ctrl-C reaches the commands under test, also where the tests run as a background job."""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in `sh -c 'tests &'`; children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
