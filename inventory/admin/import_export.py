"""Import and export of pets in the back office. An import has a preview, and adds all pets or none.

Like `manage.py import_pets`, it uses `inventory.import_export`.
"""

import io
import logging
from functools import partial
from typing import Any, BinaryIO, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.http import FileResponse, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST

from inventory.import_export import (
    STREAM,
    add_pets,
    category_ids_by_name,
    consistent_snapshot,
    detect_format,
    read_valid_pets,
    stream_pets,
)
from inventory.import_export.validation import COLUMNS_HELP, MAIN_COLUMNS, PetAttributes, Report
from inventory.import_export.writers import CSV_COLUMNS, write_pets
from inventory.models import Category, Pet, PetQuerySet, PetStatus
from inventory.models.uploads import PetUpload
from petstore.audit.forms import ActionForm
from petstore.backoffice.confirmation import ActionFormsMixin
from petstore.backoffice.forms import MultilineField
from petstore.backoffice.spreadsheets import EXPORT_CONTENT_TYPES, send_export, write_csv
from petstore.text import format_count

logger = logging.getLogger(__name__)

MAX_BYTES = 2 * 1024 * 1024
MAX_PETS = 10_000
MAX_EXPORTED_PETS = 100_000
MAX_PROBLEMS_IN_REPORT = 200
MAX_PETS_IN_PREVIEW = 20
FORMAT_NAMES = {"csv": "CSV", "jsonl": "JSON Lines"}

FILE_TOO_LARGE = (
    f"The file is too large: the limit is {MAX_PETS:,} pets and {MAX_BYTES // 2**20} MB. "
    "Split it, or ask an operator to run `manage.py import_pets`."
)
EXPORT_TOO_LARGE = (
    f"This list has more than {MAX_EXPORTED_PETS:,} pets. Narrow it with filters, or ask an operator to "
    "run `manage.py export_pets`."
)
IMPORT_FAILED = "Nothing was imported: {}. Check the pets again."
UPLOAD_EXPIRED = (
    "This preview is no longer stored: the pets have been imported, another preview has replaced it, or an "
    "hour has passed. If the pets are not in the list, check them again."
)


class ImportForm(forms.Form):
    pasted = MultilineField(
        required=False,
        strip=False,  # A trailing tab is an empty value.
        label="Paste pets",
        widget=forms.Textarea(attrs={"rows": 8, "placeholder": "name,category\nBella,Dogs", "wrap": "off"}),
        help_text="Paste rows of a spreadsheet or CSV. The first line must name the columns.",
    )
    import_file = forms.FileField(
        required=False,
        label="Or choose a file",
        widget=forms.ClearableFileInput(attrs={"accept": ".csv,.jsonl"}),
        help_text=f"At most {MAX_PETS:,} pets and {MAX_BYTES // 2**20} MB.",
    )
    format = forms.ChoiceField(
        required=False,
        choices=[("", "By file extension (CSV for pasted text)"), *FORMAT_NAMES.items()],
    )

    def clean(self) -> dict[str, Any]:
        cleaned_data = super().clean() or {}
        if self.errors:
            return cleaned_data
        file, pasted = cleaned_data["import_file"], cleaned_data["pasted"].encode()
        if file and pasted.strip():
            raise ValidationError("You pasted pets and chose a file. Remove one of them.")
        if not file and not pasted.strip():
            raise ValidationError("Paste pets or choose a file.")
        if (file.size if file else len(pasted)) > MAX_BYTES:
            raise ValidationError(FILE_TOO_LARGE)
        try:
            file_format = detect_format(file.name if file else STREAM, cleaned_data["format"])
        except ValidationError as error:
            raise ValidationError({"format": error}) from None
        content = file.read() if file else pasted
        report, pets = validate_content(content, file_format)
        if report.good_lines + report.bad_lines > MAX_PETS:
            raise ValidationError(FILE_TOO_LARGE)
        name = "".join(filter(str.isprintable, file.name)) if file else "the pasted text"
        upload = {"file_name": name, "file_format": file_format, "content": content}
        return {"report": report, "pets": pets, "upload": upload}


class ExportForm(ActionForm):
    title = "Export pets"
    button = "Export"
    downloads_file = True  # The page stays open and may be submitted again at once.
    format = forms.ChoiceField(
        choices=[
            ("csv", "CSV for spreadsheets, with formulas in names escaped"),
            ("jsonl", "JSON Lines for programs and import_pets, with unchanged names"),
        ],
    )


def validate_content(content: bytes, file_format: str) -> tuple[Report, list[PetAttributes]]:
    """Return the report, and the valid pets."""
    report = Report(max_problems=MAX_PROBLEMS_IN_REPORT)
    return report, list(read_valid_pets(io.BytesIO(content), file_format, report, MAX_PETS + 1))


# --- Views: methods of PetAdmin


def import_view(model_admin: ActionFormsMixin, request: HttpRequest) -> HttpResponse:
    """Validate a file and show a preview. Store the file for the import if every line is good."""
    form = ImportForm(request.POST, request.FILES) if request.method == "POST" else ImportForm()
    # Focus would scroll the report out of view.
    form.fields["pasted"].widget.attrs["autofocus"] = not form.is_bound
    context = {"form": form, "columns": MAIN_COLUMNS, "column_descriptions": COLUMNS_HELP}
    if form.is_valid():
        report, pets, upload = (form.cleaned_data[name] for name in ("report", "pets", "upload"))
        context |= build_preview(report, pets) | {"file_name": upload["file_name"]}
        if pets and not report.bad_lines:
            context["upload"] = PetUpload.objects.store(cast("User", request.user).pk, **upload)
    return model_admin.render_page(request, "inventory/pet/import", "Import pets", **context)


def import_template_view(model_admin: ActionFormsMixin, request: HttpRequest) -> HttpResponse:
    """Send a CSV file with the header and an example."""
    category = Category.objects.order_by("name").first()
    example = ["Biscuit", category.name if category else "Dogs", PetStatus.AVAILABLE]
    headers = {"Content-Disposition": 'attachment; filename="pets.csv"'}
    response = HttpResponse(content_type=EXPORT_CONTENT_TYPES["csv"], headers=headers)
    write_csv([MAIN_COLUMNS, example], cast("BinaryIO", response))
    return response


@method_decorator(require_POST)
def process_import_view(model_admin: ActionFormsMixin, request: HttpRequest) -> HttpResponse:
    """Import the previewed file, only once even if the form is submitted twice."""
    try:
        message = import_upload(model_admin, request)
    except PetUpload.DoesNotExist:
        model_admin.message_user(request, UPLOAD_EXPIRED, messages.WARNING)
    except ValidationError as error:
        model_admin.message_user(request, str(error.message), messages.ERROR)
    except IntegrityError:
        logger.exception("The database rejected an import.")
        model_admin.message_user(request, IMPORT_FAILED.format("the database rejected it"), messages.ERROR)
    else:
        model_admin.message_user(request, message, messages.SUCCESS)
        return redirect("admin:inventory_pet_changelist")
    return redirect("admin:inventory_pet_import")


def import_upload(model_admin: ActionFormsMixin, request: HttpRequest) -> str:
    """Add the pets and delete the upload. Return the success message.

    Raises PetUpload.DoesNotExist, and ValidationError if a category was deleted or renamed since.
    """
    user, token = cast("User", request.user), request.POST.get("upload", "")
    with transaction.atomic():
        upload = PetUpload.objects.find_unexpired(user.pk, token).select_for_update().get()
        report, pets = validate_content(bytes(upload.content), upload.file_format)
        if report.bad_lines:
            raise ValidationError(IMPORT_FAILED.format("a category was deleted or renamed"))
        add_pets(pets)
        count = format_count(len(pets), "pet")
        model_admin.log_addition(request, upload, f"Imported {count} from {upload.file_name}.")
        upload.delete()
    return f"{count} imported from {upload.file_name}."


def export_view(model_admin: ActionFormsMixin, request: HttpRequest) -> Any:
    """Export the pets that match the filters and the search of the list."""
    pets: PetQuerySet = model_admin.get_changelist_instance(request).get_queryset(request)

    def send_file(form: ExportForm) -> FileResponse:
        if pets.order_by("id")[MAX_EXPORTED_PETS : MAX_EXPORTED_PETS + 1].exists():
            raise ValidationError(EXPORT_TOO_LARGE)
        file_format = form.cleaned_data["format"]
        with consistent_snapshot():
            rows = stream_pets(pets)
            write = partial(write_pets, rows, file_format=file_format, for_spreadsheets=True)
            return send_export(request, Pet, f"pets.{file_format}", write)

    scope = "All pages of the list, with its filters and search." if request.GET else "All pets."
    description = f"{scope} The columns are {', '.join(CSV_COLUMNS)}."
    back = f"{model_admin.list_url()}?{request.GET.urlencode()}"
    return model_admin.confirm(request, ExportForm, send_file, None, back=back, description=description)


def build_preview(report: Report, pets: list[PetAttributes]) -> dict[str, Any]:
    category_names = {pk: name for name, pk in category_ids_by_name().items()}

    shown = pets[:MAX_PETS_IN_PREVIEW]
    return {
        "report": report,
        "unlisted_problems": report.bad_lines - len(report.problems),
        "pets": [[pet["name"], category_names.get(pet["category_id"]), pet["status"]] for pet in shown],
        "is_excerpt": len(pets) > MAX_PETS_IN_PREVIEW,
        "good": format_count(report.good_lines, "pet"),
        "bad": format_count(report.bad_lines, "invalid line"),
    }
