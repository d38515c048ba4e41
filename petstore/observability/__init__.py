"""What operators see of the service: log lines, numbers, traces.

`requests` measures and counts requests, `logs` writes lines to `output`, `redaction` takes secrets out of
them, `tracing` is for those who have a collector. `worker` is what a worker does beside its requests;
the process that keeps the workers uses `draining`, `metrics_files`, `metrics_port` and `parent_logs`, which
know no Django.
"""
