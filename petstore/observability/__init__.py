"""Logs, metrics and traces.

`instrumentation` measures each request, and `request_log` writes its line. `logs` formats all other lines,
`redaction` removes secrets, and `log_writer` writes the lines. `sampler` updates gauges in a thread of each
worker. `metrics_files` and `metrics_port` belong to the supervisor.
"""
