"""The columns that docs/recording-format.md promises."""

import re

import pyarrow

TYPES = {
    "uint32": pyarrow.uint32(),
    "uint64": pyarrow.uint64(),
    "int32": pyarrow.int32(),
    "int64": pyarrow.int64(),
    "bool": pyarrow.bool_(),
    "string": pyarrow.string(),
    "list<uint32>": pyarrow.list_(pyarrow.field("element", pyarrow.uint32(), nullable=False)),
}


def documented(text):
    """By table: the columns as (name, type, nullable)."""
    tables = {}
    for section in re.split(r"^### ", text.split("## Tables")[1].split("\n## ")[0], flags=re.M)[1:]:
        name = re.match(r"\w+", section)[0]
        rows = re.findall(r"^\| `(\w+)` \| ([\w<>]+)(\??) \|", section, flags=re.M)
        tables[name] = [(column, TYPES[kind], bool(null)) for column, kind, null in rows]
    return tables


def found(schema):
    """The same of a file."""
    return [(field.name, field.type, field.nullable) for field in schema]
