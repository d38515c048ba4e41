"""Uploaded files that staff have not confirmed yet."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import QuerySet
from django.utils import timezone

LIFETIME = timedelta(hours=1)


class PetUploadManager(models.Manager["PetUpload"]):
    def store(self, user_id: int, *, file_name: str, file_format: str, content: bytes) -> PetUpload:
        """Replace the user's upload, and delete expired ones."""
        self.expired().delete()
        values: dict[str, Any] = {"file_name": file_name[:255], "file_format": file_format}
        values |= {"content": content, "token": uuid.uuid4(), "created_at": timezone.now()}
        return self.update_or_create(user_id=user_id, defaults=values)[0]

    def expired(self) -> QuerySet[PetUpload]:
        return self.filter(created_at__lt=timezone.now() - LIFETIME)

    def find_unexpired(self, user_id: int, token: str) -> QuerySet[PetUpload]:
        """Find the user's upload. Matches nothing if it has expired or the token is malformed."""
        try:
            valid_token = uuid.UUID(token)
        except ValueError:
            return self.none()
        return self.filter(user_id=user_id, token=valid_token, created_at__gte=timezone.now() - LIFETIME)


class PetUpload(models.Model):
    """A validated file between preview and confirmation; at most one per member of staff.

    It is stored in the database because any worker on any machine may receive the confirmation. The import
    deletes the row in its transaction, so a second click imports nothing.
    """

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    token = models.UUIDField()
    file_name = models.CharField(max_length=255)
    file_format = models.CharField(max_length=5)
    content = models.BinaryField()
    created_at = models.DateTimeField(db_index=True)

    objects = PetUploadManager()

    class Meta:
        default_permissions = ()  # The back office has no pages for uploads.

    def __str__(self) -> str:
        return self.file_name
