"""What happens to a process that serves."""

from django.dispatch import Signal

# Sent once, before the first request, to whoever has something to do beside the requests.
worker_started = Signal()
