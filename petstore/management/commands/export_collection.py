"""Write the API as a collection for Postman and Bruno."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from petstore.api.openapi.views import document
from petstore.collection import collection
from petstore.management.base import JsonCommand

STREAM = "-"


class Command(JsonCommand):
    help = (
        "Write every operation of the API as a collection that Postman and Bruno import (Postman's format "
        "2.1). Its variable baseUrl is BASE_URL; set apiKey to a key of yours."
    )
    examples = """
        manage.py export_collection petstore.postman_collection.json
        BASE_URL=https://api.example.com/v1 manage.py export_collection > petstore.json
        """

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "file", nargs="?", default=STREAM, metavar="FILE",
            help="The file; without it, or with -, standard output.",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        made = collection(document())
        text = json.dumps(made, indent=2)
        count = sum(len(folder["item"]) for folder in made["item"])
        if options["file"] == STREAM:
            self.stdout.write(text)
            return
        try:
            Path(options["file"]).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{options['file']} can't be written: {error.strerror}.") from None
        summary = {"file": options["file"], "requests": count}
        self.answer(options, summary, f"Done. Wrote {count} requests to {options['file']}.")
