"""Import and export of pets in the back office. An import has a preview, and adds all pets or none.

Reading, validation and writing are those of `inventory.import_export`, as in `manage.py import_pets`.
"""

from __future__ import annotations

import io
import logging
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.http import FileResponse, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget

from inventory.admin.shared import RowActionsAdmin
from inventory.import_export import (
    STREAM,
    add,
    category_ids,
    detect_format,
    export,
    read_valid_batches,
    snapshot,
)
from inventory.import_export.checking import COLUMNS_HELP, MAIN_COLUMNS, Report, Row
from inventory.import_export.writing import CSV_COLUMNS, write
from inventory.members import PET
from inventory.models import Category, Pet, PetQuerySet
from inventory.models.uploads import PetUpload
from petstore.backoffice import spreadsheets
from petstore.backoffice.audit import CONTENT_TYPES, send_export
from petstore.backoffice.confirmation import Confirmation, confirm
from petstore.backoffice.forms import MultilineField
from petstore.backoffice.text import pluralize

logger = logging.getLogger(__name__)

MAX_BYTES = 2 * 1024 * 1024
MAX_PETS = 10_000
PROBLEMS_SHOWN = 200
PETS_SHOWN = 20
MAX_EXPORTED = 100_000
TITLES = {"csv": "CSV", "jsonl": "JSON Lines"}
TOO_BIG = (
    f"The file is too large: the limit is {MAX_PETS:,} pets and {MAX_BYTES // 2**20} MB. "
    "Split it, or ask an operator to run `manage.py import_pets`."
)
NEITHER = "Paste pets or choose a file."
BOTH = "You pasted pets and chose a file. Remove one of them."
PASTED = "the pasted text"
UNKNOWN_FORMAT = "The file name ends in neither .csv nor .jsonl. Choose the format."
TOO_MANY = (
    f"This list has more than {MAX_EXPORTED:,} pets. Narrow it with filters, or ask an operator to run "
    "`manage.py export_pets`."
)
NOT_IMPORTED = "Nothing was imported: {}. Check the pets again."
EXPORT = Confirmation("Export pets", "Export", "", downloads_file=True)
GONE = (
    "This preview is no longer stored: the pets have been imported, another preview has replaced it, or an "
    "hour has passed. If the pets are not in the list, check them again."
)


class ImportForm(forms.Form):
    pasted = MultilineField(
        required=False,
        strip=False,  # A trailing tab is an empty value.
        label="Paste pets",
        widget=UnfoldAdminTextareaWidget(
            attrs={"rows": 8, "placeholder": "name,category\nBella,Dogs", "wrap": "off"}
        ),
        help_text="From a spreadsheet or a list. The first line names the columns.",
    )
    import_file = forms.FileField(
        required=False,
        label="Or choose a file",
        widget=UnfoldAdminFileFieldWidget(attrs={"accept": ".csv,.jsonl"}),
        help_text=f"At most {MAX_PETS:,} pets and {MAX_BYTES // 2**20} MB.",
    )
    format = forms.ChoiceField(
        required=False,
        choices=[("", "From the file extension; pasted text is CSV"), *TITLES.items()],
        widget=UnfoldAdminSelectWidget,
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        file, pasted = cleaned["import_file"], cleaned["pasted"].encode()
        if bool(file) == bool(pasted.strip()):
            raise ValidationError(BOTH if file else NEITHER)
        if (file.size if file else len(pasted)) > MAX_BYTES:
            raise ValidationError(TOO_BIG)
        try:
            file_format = detect_format(file.name if file else STREAM, cleaned["format"])
        except ValueError:
            raise ValidationError({"format": UNKNOWN_FORMAT}) from None
        content = file.read() if file else pasted
        report, rows = check(content, file_format)
        if report.good + report.bad > MAX_PETS:
            raise ValidationError(TOO_BIG)
        name = "".join(sign for sign in file.name if sign.isprintable()) if file else PASTED
        return {"report": report, "rows": rows, "name": name, "content": content, "format": file_format}


class ExportForm(forms.Form):
    format = forms.ChoiceField(
        choices=[
            ("csv", "CSV, for spreadsheets: formulas in names are escaped"),
            ("jsonl", "JSON Lines: names as they are, for import_pets and programs"),
        ],
        widget=UnfoldAdminSelectWidget,
    )


def check(content: bytes, file_format: str) -> tuple[Report, list[Row]]:
    """Validate the file as import_pets does, and return the report with the good rows."""
    report = Report(max_problems=PROBLEMS_SHOWN)
    batches = read_valid_batches(io.BytesIO(content), file_format, report, MAX_PETS + 1)
    return report, [row for rows in batches for row in rows]


class PetImportExportAdmin(RowActionsAdmin):
    list_pages = MappingProxyType(
        {
            "import/": ("import", "add"),
            "import/template/": ("import_template", "add"),
            "process_import/": ("process_import", "add"),
            "export/": ("export", "view"),
        }
    )

    def import_view(self, request: HttpRequest) -> HttpResponse:
        """Validate a file and show a preview. Store it for import if every line is good."""
        form = ImportForm(request.POST, request.FILES) if request.method == "POST" else ImportForm()
        context: dict[str, Any] = {"form": form, "columns": MAIN_COLUMNS, "columns_in_words": COLUMNS_HELP}
        pasted = form.fields["pasted"].widget.attrs
        pasted["autofocus"] = not form.is_bound  # Focus would scroll the report out of view.
        if form.is_valid():
            given = form.cleaned_data
            context |= self.preview(given["report"], given["rows"], given["name"])
            if given["rows"] and not given["report"].bad:
                context["upload"] = PetUpload.objects.store(
                    cast("User", request.user).pk,
                    file_name=given["name"],
                    file_format=given["format"],
                    content=given["content"],
                )
        return self.page(request, "inventory/pet/import", "Import pets", **context)

    def preview(self, report: Report, rows: list[Row], name: str) -> dict[str, Any]:
        names = {pk: category for category, pk in category_ids().items()}
        return {
            "report": report,
            "file_name": name,
            "more_problems": report.bad - len(report.problems),
            "pets": [
                [
                    names.get(row[member.attribute]) if member.column else row.get(member.attribute) or ""
                    for member in PET.writable
                ]
                for row in rows[:PETS_SHOWN]
            ],
            "more_pets": max(0, len(rows) - PETS_SHOWN),
            "good": pluralize(report.good, "pet"),
            "bad": pluralize(report.bad, "bad line"),
        }

    def import_template_view(self, request: HttpRequest) -> FileResponse:
        """Send a CSV file with the header and an example."""
        category = Category.objects.order_by("name").first()
        file = io.BytesIO()
        name = category.name if category else "Dogs"
        pet = [name if member.column else str(member.example) for member in PET.writable]
        spreadsheets.write([MAIN_COLUMNS, pet], file)
        file.seek(0)
        return FileResponse(
            file, as_attachment=True, filename="pets.csv", content_type=CONTENT_TYPES["csv"]
        )

    @method_decorator(require_POST)
    def process_import_view(self, request: HttpRequest) -> HttpResponse:
        """Import the previewed file, once even if the form is submitted twice."""
        page = "import"
        try:
            text, level, page = self.add_upload(request), messages.SUCCESS, "changelist"
        except PetUpload.DoesNotExist:
            text, level = GONE, messages.WARNING
        except ValidationError as error:
            text, level = str(error.message), messages.ERROR
        except IntegrityError:
            logger.exception("The database rejected an import.")
            text, level = NOT_IMPORTED.format("the database rejected it"), messages.ERROR
        self.message_user(request, text, level)
        return redirect(f"admin:inventory_pet_{page}")

    def add_upload(self, request: HttpRequest) -> str:
        """Add the pets and delete the upload. Return a message.

        Raises PetUpload.DoesNotExist, and ValidationError if a category was deleted since the preview.
        """
        with transaction.atomic():
            waiting = PetUpload.objects.pending(
                cast("User", request.user).pk, request.POST.get("upload", "")
            )
            upload = waiting.select_for_update().get()
            # Validated again, since categories may have been deleted.
            report, rows = check(bytes(upload.content), upload.file_format)
            if report.bad:
                raise ValidationError(NOT_IMPORTED.format("a category no longer exists"))
            add([rows])
            pets = pluralize(len(rows), "pet")
            self.log_addition(request, upload, f"Imported {pets} from {upload.file_name}.")
            upload.delete()
        return f"{pets} imported from {upload.file_name}."

    def export_view(self, request: HttpRequest) -> Any:
        """Export the pets that match the filters and the search of the list."""
        pets: PetQuerySet = self.get_changelist_instance(request).get_queryset(request)

        def send(given: dict[str, Any]) -> FileResponse:
            if pets.order_by("id")[MAX_EXPORTED : MAX_EXPORTED + 1].exists():
                raise ValidationError(TOO_MANY)
            file_format = given["format"]
            with snapshot():
                write_pets = partial(write, export(pets), file_format=file_format, for_spreadsheets=True)
                return send_export(request, Pet, f"pets.{file_format}", write_pets)

        which = "All pages of the list, with its filters and search." if request.GET else "All pets."
        about = f"{which} The columns are {', '.join(CSV_COLUMNS)}."
        back = f"{self.list_url()}?{request.GET.urlencode()}"
        return confirm(self, request, EXPORT, ExportForm, send, back=back, about=about)
