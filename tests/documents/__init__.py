"""Every command and code block that README and docs show is run here; `blocks` says how a page marks its blocks."""
