"""Logs, metrics and traces.

`instrumentation` records each request and writes its log line with `log_writer`; `logs` formats all other
lines, and `redaction` removes secrets. `sampler` updates gauges in a thread of each worker. The supervisor
uses `logs`, `metrics_files` and `metrics_port`, which don't import Django.
"""
