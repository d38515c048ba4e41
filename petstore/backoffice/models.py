"""The models of this app, which are those of the audit trail."""

from petstore.audit.models import AuditEntry, FailedSignIn

__all__ = ["AuditEntry", "FailedSignIn"]
