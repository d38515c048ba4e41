"""Uploaded files that await confirmation by staff."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from django.conf import settings
from django.db import models
from django.utils import timezone

LIFETIME = timedelta(hours=1)


class PetUploadManager(models.Manager["PetUpload"]):
    """Stores one file per member of staff, for at most LIFETIME."""

    def store(
        self, user_id: int, *, file_name: str, file_format: str, content: bytes, now: datetime | None = None
    ) -> PetUpload:
        """Replace the user's file, and delete expired ones."""
        now = now or timezone.now()
        self.filter(made_at__lt=now - LIFETIME).delete()
        upload, _ = self.update_or_create(
            user_id=user_id,
            defaults={
                "token": uuid.uuid4(),
                "file_name": file_name[:255],
                "file_format": file_format,
                "content": content,
                "made_at": now,
            },
        )
        return upload

    def pending(self, user_id: int, token: str, now: datetime | None = None) -> models.QuerySet[PetUpload]:
        """Filter on the user's unexpired file with this token, which may be malformed."""
        try:
            number = uuid.UUID(token)
        except ValueError:
            return self.none()
        return self.filter(user_id=user_id, token=number, made_at__gte=(now or timezone.now()) - LIFETIME)


class PetUpload(models.Model):
    """A validated file between preview and confirmation.

    Any worker on any machine may receive the confirmation. The import deletes the row in its transaction,
    so a second click imports nothing.
    """

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    token = models.UUIDField()
    file_name = models.CharField(max_length=255)
    file_format = models.CharField(max_length=5)
    content = models.BinaryField()
    made_at = models.DateTimeField(db_index=True)

    objects = PetUploadManager()

    class Meta:
        default_permissions = ()  # Not managed in the back office.

    def __str__(self) -> str:
        return self.file_name
