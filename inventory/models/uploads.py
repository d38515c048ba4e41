"""The table of files that staff uploaded and have not confirmed yet."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from django.conf import settings
from django.db import models
from django.utils import timezone

KEPT = timedelta(hours=1)


class PetUploadManager(models.Manager["PetUpload"]):
    """Keeps the table small: one file for each member of staff, and none for longer than KEPT."""

    def keep(
        self, user_id: int, *, file_name: str, file_format: str, content: bytes, now: datetime | None = None
    ) -> PetUpload:
        """Keep a file in place of the member's last one, and forget whatever is too old."""
        now = now or timezone.now()
        self.filter(made_at__lt=now - KEPT).delete()
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

    def waiting(self, user_id: int, token: str, now: datetime | None = None) -> models.QuerySet[PetUpload]:
        """Return the member's file of this token, if it still waits; any text is safe."""
        try:
            number = uuid.UUID(token)
        except ValueError:
            return self.none()
        return self.filter(user_id=user_id, token=number, made_at__gte=(now or timezone.now()) - KEPT)


class PetUpload(models.Model):
    """A checked file between its preview and its confirmation.

    In the database, since any worker on any machine may get the confirmation. Importing deletes the row in
    the same transaction, so that a second click imports nothing.
    """

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    token = models.UUIDField()
    file_name = models.CharField(max_length=255)
    file_format = models.CharField(max_length=5)
    content = models.BinaryField()
    made_at = models.DateTimeField(db_index=True)

    objects = PetUploadManager()

    class Meta:
        default_permissions = ()  # Nobody looks after these rows.

    def __str__(self) -> str:
        return self.file_name
