"""The admin site for staff, and what the admins of the other apps build on."""
