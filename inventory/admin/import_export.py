"""Pets by file in the back office: a preview of each bad line, then all of it or nothing.

The pages, addresses and permissions are django-import-export's. Reading, checking and writing are
`inventory.import_export`'s, and not tablib's and a Resource's, so that a file gets the same verdict here as
from `manage.py import_pets`: the same line numbers, encodings, quotes and rules.
"""

from __future__ import annotations

import io
import logging
import tempfile
from typing import Any, BinaryIO

from django import forms
from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError, transaction
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST
from import_export.admin import ImportExportMixin
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldAdminSelectWidget

from inventory.admin.changelist import BigTableAdmin
from inventory.import_export import READ_FORMATS, format_of
from inventory.import_export.checking import Checker, Report, Row, good_rows
from inventory.import_export.lines import BLANKS, BOM, Lines, Records, UnreadableError
from inventory.import_export.reading import READERS
from inventory.import_export.storing import add, category_ids, export, snapshot
from inventory.import_export.writing import write_csv, write_json_lines
from inventory.models import PetQuerySet
from inventory.models.uploads import PetUpload
from petstore.backoffice.wording import counted

logger = logging.getLogger(__name__)

MOST_BYTES = 2 * 1024 * 1024
MOST_LINES = 10_000
PROBLEMS_SHOWN = 200
PETS_SHOWN = 20
MOST_EXPORTED = 100_000
TITLES = {"csv": "CSV", "json": "JSON", "jsonl": "JSON Lines"}
CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
TOO_BIG = (
    f"The file is too big to be imported here: at most {MOST_LINES:,} lines and {MOST_BYTES // 2**20} MB. "
    "Of a JSON array, the elements are counted. Split it, or ask whoever runs the service for "
    "`manage.py import_pets`."
)
GONE = (
    "This file is no longer kept: it was imported or replaced by another one, or an hour has passed. "
    "If its pets are not in the list, choose the file again."
)


class NoLongerGoodError(Exception):
    """A file that was good when it was previewed has bad lines now."""


class ImportForm(forms.Form):
    import_file = forms.FileField(
        label="File",
        widget=UnfoldAdminFileFieldWidget(attrs={"accept": ".csv,.json,.jsonl"}),
        help_text=f"At most {MOST_LINES:,} lines (in a JSON array: elements) and {MOST_BYTES // 2**20} MB.",
    )
    format = forms.ChoiceField(
        required=False,
        choices=[("", "By the ending of its name"), *TITLES.items()],
        widget=UnfoldAdminSelectWidget,
    )

    def clean_import_file(self) -> Any:
        file = self.cleaned_data["import_file"]
        if file.size > MOST_BYTES:
            raise ValidationError(TOO_BIG)
        return file

    def clean(self) -> dict[str, Any]:
        """Find out the format, and read the file."""
        cleaned = super().clean() or {}
        if (file := cleaned.get("import_file")) is None:
            return cleaned
        try:
            cleaned["format"] = format_of(file.name, cleaned.get("format"), READ_FORMATS)
        except ValueError:
            self.add_error(
                "format",
                "The file's name doesn't end in .csv, .jsonl or .json. Choose what it is.",
            )
        cleaned["content"] = file.read()
        may_be_array = cleaned.get("format") != "csv" and is_array(cleaned["content"])
        if not may_be_array and cleaned["content"].count(b"\n") > MOST_LINES:
            self.add_error("import_file", TOO_BIG)
        return cleaned


class ExportForm(forms.Form):
    format = forms.ChoiceField(
        choices=[
            ("csv", "CSV, for spreadsheets: formulas in names are disarmed"),
            ("jsonl", "JSON Lines: names as they are, for import_pets and programs"),
        ],
        widget=UnfoldAdminSelectWidget,
    )


def member(request: HttpRequest) -> int:
    """Return the id of the member of staff; the site lets nobody else in."""
    assert request.user.pk is not None
    return request.user.pk


def is_array(content: bytes) -> bool:
    """Tell whether JSON is an array, whose lines say nothing about the number of its elements."""
    return content.removeprefix(BOM).lstrip(BLANKS).startswith(b"[")


def at_most(most: int, records: Records) -> Records:
    """Pass on so many records; refuse what follows."""
    for number, (line, raw) in enumerate(records):
        if number == most:
            raise UnreadableError(line, TOO_BIG)
        yield line, raw


def check(content: bytes, file_format: str) -> tuple[Report, list[Row]]:
    """Return what import_pets would say of the file, and the good rows."""
    report = Report(room=PROBLEMS_SHOWN)
    records = at_most(MOST_LINES, READERS[file_format](Lines(io.BytesIO(content))))
    batches = good_rows(records, Checker(category_ids()), report)
    return report, [row for rows in batches for row in rows]


class PetExchange(ImportExportMixin, BigTableAdmin):  # type: ignore[misc]  # The mixin is not typed.
    """The pages to import pets from a file and to export them to one."""

    def require(self, what: str, request: HttpRequest) -> None:
        """Raise PermissionDenied unless somebody may import or export."""
        if not getattr(self, f"has_{what}_permission")(request):
            raise PermissionDenied

    def import_action(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        """Check a file and show what it would do; keep it if it is all good."""
        self.require("import", request)
        context: dict[str, Any] = {"formats": READ_FORMATS}
        form = ImportForm(request.POST, request.FILES) if request.method == "POST" else ImportForm()
        if form.is_valid():
            given = form.cleaned_data
            report, rows = check(given["content"], given["format"])
            name = "".join(sign for sign in given["import_file"].name if sign.isprintable())
            context |= self.preview(report, rows, name)
            if rows and not report.bad:
                context["upload"] = PetUpload.objects.keep(
                    member(request), file_name=name, file_format=given["format"], content=given["content"]
                )
        return self.page(request, "inventory/pet/import", "Import pets", form=form, **context)

    def preview(self, report: Report, rows: list[Row], name: str) -> dict[str, Any]:
        names = {pk: category for category, pk in category_ids().items()}
        return {
            "report": report,
            "file_name": name,
            "more_problems": report.bad - len(report.problems),
            "pets": [(pet, names.get(pk, pk), status) for pet, pk, status in rows[:PETS_SHOWN]],
            "more_pets": max(0, len(rows) - PETS_SHOWN),
            "good": counted(report.good, "pet"),
            "bad": counted(report.bad, "bad line"),
        }

    @method_decorator(require_POST)
    def process_import(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        """Import the file that was previewed: once, however often the button is pressed."""
        self.require("import", request)
        level = messages.ERROR
        try:
            text, level = self.add_upload(request), messages.SUCCESS
        except PetUpload.DoesNotExist:
            text, level = GONE, messages.WARNING
        except NoLongerGoodError:
            text = "Nothing was imported: a category is no longer there. Check the file again."
        except IntegrityError:
            logger.exception("The database refused an import.")
            text = "Nothing was imported: the database refused it. Check the file again."
        self.message_user(request, text, level)
        page = "changelist" if level == messages.SUCCESS else "import"
        return HttpResponseRedirect(reverse(f"admin:inventory_pet_{page}"))

    def add_upload(self, request: HttpRequest) -> str:
        """Add the pets of the waiting file and forget it; return what was done.

        Raises PetUpload.DoesNotExist, and NoLongerGoodError if a category has gone since the preview.
        """
        with transaction.atomic():
            waiting = PetUpload.objects.waiting(member(request), request.POST.get("upload", ""))
            upload = waiting.select_for_update().get()
            # Checked anew, since categories may have gone; nothing of it is trusted to the browser.
            report, rows = check(bytes(upload.content), upload.file_format)
            if report.bad:
                raise NoLongerGoodError
            add([rows])
            pets = counted(len(rows), "pet")
            self.log_addition(request, upload, f"Imported {pets} from a file.")
            upload.delete()
        return f"{pets} imported from {upload.file_name}."

    def export_action(self, request: HttpRequest) -> Any:
        """Ask for the format, then send the pets that filters and search of the list let through."""
        self.require("export", request)
        home = reverse("admin:inventory_pet_changelist")
        try:
            pets: PetQuerySet = self.get_export_queryset(request)  # type: ignore[no-untyped-call]
        except IncorrectLookupParameters:
            return HttpResponseRedirect(f"{home}?e=1")
        form = ExportForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            if (response := exported(pets, form.cleaned_data["format"])) is not None:
                return response
            form.add_error(
                None,
                f"More than {MOST_EXPORTED:,} pets are in this list. Narrow it with filters, or ask "
                "whoever runs the service for `manage.py export_pets`.",
            )
        back = f"{home}?{request.GET.urlencode()}"
        chosen = bool(request.GET)
        return self.page(
            request, "inventory/pet/export", "Export pets", form=form, chosen=chosen, back=back
        )


def exported(pets: PetQuerySet, file_format: str) -> FileResponse | None:
    """Return the file, or None if it would be too big.

    It is written to the disk first, so that a slow reader keeps no connection to the database.
    """
    file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  The response closes it.
    with snapshot():
        rows = export(pets)
        written = Limited(rows)
        if file_format == "csv":
            write_csv(written, file, for_spreadsheets=True)
        else:
            write_json_lines(written, file)
    if written.exceeded:
        file.close()
        return None
    file.seek(0)
    name = f"pets-{timezone.now():%Y-%m-%d}.{file_format}"
    return FileResponse(file, as_attachment=True, filename=name, content_type=CONTENT_TYPES[file_format])


class Limited:
    """Passes on MOST_EXPORTED rows and notes whether there were more."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.exceeded = False

    def __iter__(self) -> Any:
        for number, row in enumerate(self.rows):
            if number == MOST_EXPORTED:
                self.exceeded = True
                return
            yield row
