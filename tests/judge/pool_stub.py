"""Imported into a warm process by test_fork_server.py: starts a thread of which nobody knows what it holds."""

import threading

threading.Thread(target=threading.Event().wait, daemon=True).start()
