"""What operators see of the service: log lines, numbers, traces.

`requests` measures and counts requests and writes their lines to `output`, `logs` forms all others,
`redaction` takes secrets out of them, `tracing` is for those who have a collector. `worker` is what a
worker does beside its requests. The process that keeps the workers uses `logs`, `metrics_files`
and `metrics_port`, which know no Django.
"""
