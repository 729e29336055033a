"""Files and folders of the lake, on this machine or at a URL: written completely or not at all; stored values; locks.
Not here: what is in them (each package has the readers of its own files)."""
