"""What operators see of the service: log lines, numbers, traces.

`requests` measures and counts requests, `logs` writes lines to `output`, `redaction` takes secrets out of
them, `tracing` is for those who have a collector. `worker` is what a worker does beside its requests;
`parent_logs`, `metrics_files` and `metrics_port` are for the process that keeps the workers, and know no
Django.
"""
