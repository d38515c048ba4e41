"""The admin site for staff, and base classes for the admins of other apps."""
