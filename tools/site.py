"""`make docs`: the documents as a site, with mkdocs-material, in site/.

    python tools/site.py           build it; a link that leads nowhere fails
    python tools/site.py serve     show it, and follow changes of the pages

A page is the same file in the repository and on the site. This lays copies out in .cache/site: the README as the first
page, the pages of docs/, and those of the root that they link to. A link to any other file becomes its path. The
navigation is the index in docs/README.md, by reader.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
STAGE = ROOT / ".cache" / "site"
# Files outside docs/ that are pages, too, and their names there.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "report-a-hole.md",
    "benchmarks/results.md": "results.md",
}
LINK = re.compile(r"\[([^\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def main() -> None:
    """Lay the pages out, and have mkdocs build or serve them."""
    stage()
    config = STAGE.parent / "mkdocs.yml"
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    text = text.replace("docs_dir: .cache/site", f"docs_dir: {STAGE}").replace(
        "site_dir: site", f"site_dir: {ROOT}/site"
    )
    config.write_text(text + yaml.safe_dump({"nav": navigation()}), encoding="utf-8")
    command = sys.argv[1] if len(sys.argv) > 1 else "build"
    mkdocs = [sys.executable, "-m", "mkdocs", command, "-q", "-f", config]
    sys.exit(subprocess.run(mkdocs, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=False).returncode)


def stage() -> None:
    """Copy the pages, with links that lead from where they lie now."""
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGE)
    for page in [*(ROOT / "docs").rglob("*.md"), *(ROOT / each for each in PAGES)]:
        text = LINK.sub(lambda found, page=page: moved(page, *found.groups()), page.read_text(encoding="utf-8"))
        (STAGE / place(page)).write_text(text, encoding="utf-8")


def place(page: Path) -> Path:
    """Return where a page lies on the site; docs/README.md is the index of the documents."""
    inside = page.relative_to(ROOT)
    if str(inside) in PAGES:
        return Path(PAGES[str(inside)])
    inside = inside.relative_to("docs")
    return Path("documents.md") if inside == Path("README.md") else inside


def moved(page: Path, words: str, target: str, anchor: str | None) -> str:
    """Return a link as it is on the site."""
    file = (page.parent / target).resolve()
    if file.is_dir() and file.is_relative_to(ROOT / "docs"):
        return words
    is_page = str(file.relative_to(ROOT)) in PAGES or file.is_relative_to(ROOT / "docs")
    if not is_page:
        return f"`{file.relative_to(ROOT)}`"
    up = "../" * len(place(page).parent.parts)
    return f"[{words}]({up}{place(file)}{anchor or ''})"


def navigation() -> list[object]:
    """Return the navigation: a section for each kind of reader in docs/README.md, in its order."""
    index = ROOT / "docs" / "README.md"
    sections: list[object] = [{"Odradek": "index.md"}]
    for part in index.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, text = part.partition("\n")
        pages: list[object] = []
        for found in LINK.finditer(text):
            file = (index.parent / found[2]).resolve()
            if file.is_file() and str(place(file)) != "index.md" and {found[1]: str(place(file))} not in pages:
                pages.append({found[1]: str(place(file))})
        sections.append({title: pages})
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    sections.append({"Decisions": [str(place(each)) for each in decisions]})
    return [*sections, {"Changelog": "changelog.md"}, {"Report a hole": "report-a-hole.md"}]


if __name__ == "__main__":
    main()
