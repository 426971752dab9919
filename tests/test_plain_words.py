"""Plain sentences: some words that keep a reader guessing are banned, and no sentence is too long to read at once.

`BANNED` are words that do not say who is meant, or how many. "Whoever", "somebody", "anybody" and "everybody" stand for
a node, the holder, an outsider, an owner or all nodes, and each of those says more. "So many" stands for a number that
has a name. They may not stand in docstrings, comments, messages or pages (README.md, docs/). Names in code may have
them. "Nobody" is exact ("nobody is skipped") and stays.

`LONGEST` holds for docstrings and messages. A sentence ends with a full stop, question mark or exclamation mark; or
with its paragraph, item of a list, or description of a parameter. A colon or a semicolon does not end it. Only words
count. Symbols of a formula, numbers, and code in double backquotes do not. Blocks of code, doctests and whole files in
a string (templates, SQL) are no sentences. Pages may take `LONGEST_OF_PAGES` words: links and numbers stand there.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "skipring"
BANNED = re.compile(r"\b(whoever|whomever|whosoever|somebody|anybody|everybody|so\s+many)\b", re.IGNORECASE)
LONGEST = 30
LONGEST_OF_PAGES = 40

Piece = tuple[int, str]
_WORD = re.compile(r"[\"'(\[*_`]*([A-Za-z]{2,}|[AaI])(['\u2019-][A-Za-z]+)*[\"')\]*_`,.:;!?]*")
_END = re.compile(r"(?<=[.!?])[\"')*_`]*\s")
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.|\w[\w, *]* :)\s)")


def docstrings(tree: ast.Module) -> dict[ast.Constant, str]:
    """Return the strings of a file that are docstrings, and what they say."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                first = node.body[0]
                assert isinstance(first, ast.Expr)
                assert isinstance(first.value, ast.Constant)
                found[first.value] = text
    return found


def messages(tree: ast.Module) -> Iterator[Piece]:
    """Yield the strings with at least four words that are no docstrings; what is put into them counts as one word."""
    passed: set[ast.AST] = set(docstrings(tree))
    for node in ast.walk(tree):  # outer ones first
        if isinstance(node, ast.JoinedStr):
            passed.update(part for part in node.values if isinstance(part, ast.Constant))
            text = ""
            for part in node.values:
                # What is put in after a full stop is a sentence of its own.
                put_in = " value" if text.endswith((".", "!", "?")) else "value"
                text += str(part.value) if isinstance(part, ast.Constant) else put_in
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in passed:
            text = node.value
        else:
            continue
        if len(text.split()) >= 4:
            yield node.lineno, text


def comments(text: str) -> Iterator[Piece]:
    """Yield blocks of comments, each as one text."""
    block: list[str] = []
    start = last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            if line != last + 1 and block:
                yield start, " ".join(block)
                block = []
            start = line if not block else start
            last = line
            block.append(token.string.lstrip("#: "))
    if block:
        yield start, " ".join(block)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a docstring, a message or a page, without code."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^[ ]*>>>.*?(?:\n[ ]*\n|\Z)", "\n\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"::\n\s*\n((?: {4,}.*)?\n)+", ":\n\n", text + "\n")
    text = re.sub(r"``.*?``", "``", text, flags=re.DOTALL)
    text = re.sub(r"^(\s*)\|.*\|\s*$", r"\n", text, flags=re.MULTILINE)  # tables
    text = re.sub(r"\]\([^)]*\)", "]", text)  # where a link leads
    text = re.sub(r"^[ ]*-{3,}$", "\n", text, flags=re.MULTILINE)
    for paragraph in _PARAGRAPH.split(text):
        yield from (" ".join(sentence.split()) for sentence in _END.split(paragraph))


def words(sentence: str) -> int:
    """Return how many words a sentence has; symbols are none."""
    return sum(_WORD.fullmatch(word) is not None for word in sentence.split())


def no_prose(text: str) -> bool:
    """Say whether a string is a file or a query, not a sentence."""
    return text.count("\n") > 3 or text.lstrip().startswith(("SELECT ", "CREATE ", "INSERT ", "UPDATE ", "<"))


def faults(path: Path) -> Iterator[str]:
    """Yield what is wrong with the sentences of a file."""
    text = path.read_text()
    tree = ast.parse(text)
    documented = [(node.lineno, said) for node, said in docstrings(tree).items()]
    said = list(messages(tree))
    for line, piece in sorted([*documented, *said, *comments(text)]):
        for match in BANNED.finditer(piece):
            around = " ".join(piece[max(0, match.start() - 40) : match.end() + 40].split())
            yield f"{path}:{line}: {match.group()!r}: ..{around}.."
    for line, piece in sorted(documented + [one for one in said if not no_prose(one[1])]):
        for sentence in sentences(piece):
            if (many := words(sentence)) > LONGEST:
                yield f"{path}:{line}: {many} words: {sentence}"


def faults_of_page(path: Path) -> Iterator[str]:
    """Yield what is wrong with the sentences of a page."""
    text = path.read_text()
    for number, line in enumerate(text.splitlines(), 1):
        yield from (f"{path}:{number}: {match.group()!r}: {line}" for match in BANNED.finditer(line))
    for sentence in sentences(text):
        if (many := words(sentence)) > LONGEST_OF_PAGES:
            yield f"{path}: {many} words: {sentence}"


def rooms() -> list[Path]:
    """Return what stands directly in src/skipring."""
    return sorted(place for place in SOURCE.iterdir() if place.suffix == ".py" or (place / "__init__.py").exists())


@pytest.mark.parametrize("room", [pytest.param(room, id=room.name) for room in rooms()])
def test_a_room_says_what_it_has_to_say_in_plain_sentences(room: Path) -> None:
    files = [room] if room.suffix == ".py" else sorted(room.rglob("*.py"))
    assert [fault for path in files for fault in faults(path)] == []


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in PAGES])
def test_a_page_says_what_it_has_to_say_in_plain_sentences(page: Path) -> None:
    assert list(faults_of_page(page)) == []


def test_words_and_long_sentences_are_found_where_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "page.py"
    long = "word " * (LONGEST + 1)
    for text, found in (
        ('"""Whoever reads this."""', 1),
        ("x = 1  # for so\n# many of them, and somebody else", 2),
        ('raise ValueError(f"it must be {1} or for everybody")', 1),
        ('anybody = "well"', 0),
        (f'"""{long}."""', 1),
        (f'"""{"word " * 16}. {"word " * 16}! {"word " * 16}? {"word " * 16}."""', 0),
        (f'"""{"word " * 16}; {"word " * 16}."""', 1),
        (f'"""{"word " * 16}: {"word " * 16}."""', 1),
        (f'"""Parameters.\n\none : {"word " * 16}\ntwo : {"word " * 16}\n"""', 0),
        (f'"""An example::\n\n    {long}\n\nand so on."""', 0),
        (f'"""{"x + 3 = " * LONGEST}."""', 0),
        (f'x = "{long}"', 1),
        (f'x = f"{"word " * LONGEST} {{1}}."', 1),
        (f'x = f"{"word " * 16}.{{1}} {"word " * 16}."', 0),
        (f'x = "one\\n two\\n three\\n four\\n {long}"', 0),
    ):
        path.write_text(text)
        assert len(list(faults(path))) == found, text
    for text, found in (
        ("Somebody knows.", 1),
        ("word " * (LONGEST_OF_PAGES + 1), 1),
        (f"| {'word ' * (LONGEST_OF_PAGES + 1)} |", 0),
        (f"```\n{'word ' * (LONGEST_OF_PAGES + 1)}\n```", 0),
    ):
        path.write_text(text)
        assert len(list(faults_of_page(path))) == found, text
