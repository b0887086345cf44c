"""Write every command's ``--help`` into the site's page of commands, each time the site is built.

A hook of mkdocs (``mkdocs.yml`` names it). The page itself has only the line that this replaces, so it cannot differ from the commands.
"""

from collections.abc import Iterator

import click
from mkdocs.structure.pages import Page

from ledgerfs.cli.group import cli

PLACE = "<!-- every command's help -->"
WIDTH = 100
_ELSEWHERE = '<script src="https://unpkg.com/iframe-worker/shim"></script>'


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return the text of a page, with the help of all commands where it asks for them."""
    if PLACE not in markdown:
        return markdown
    return markdown.replace(PLACE, "\n".join(sections(cli, None, "ledgerfs")))


def sections(command: click.Command, parent: click.Context | None, name: str) -> Iterator[str]:
    """Yield a section for a command and, if it is a group, one for each command in it, as Markdown."""
    with click.Context(
        command, parent=parent, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH
    ) as context:
        yield f"## `{context.command_path}`\n\n````text\n{command.get_help(context)}\n````\n"
        if isinstance(command, click.Group):
            for one in command.list_commands(context):
                found = command.get_command(context, one)
                if found is not None:
                    yield from sections(found, context, one)


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Load ``docs/js/file_worker.js`` in place of the script that the plugin `offline` would load from elsewhere."""
    own = f'<script src="{"../" * page.url.count("/")}js/file_worker.js"></script>'
    return output.replace(_ELSEWHERE, own)


def on_post_template(output_content: str, **_: object) -> str:
    """Leave that script out of pages that may be served at any depth."""
    return output_content.replace(_ELSEWHERE, "")
