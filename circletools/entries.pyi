from circletools.surgery.entries import Description as Description
from circletools.surgery.entries import Entries as Entries
from circletools.surgery.entries import describe as describe
from circletools.surgery.entries import document as document
from circletools.surgery.entries import get_entry, list_entries, remove_entries, rename_entries, set_entry
from circletools.surgery.entries import labels as labels
from circletools.surgery.entries import normalize as normalize
from circletools.surgery.entries import set_document as set_document

get = get_entry
list = list_entries  # noqa: A001  (`ct.metadata.list`, as the command has it)
remove = remove_entries
rename = rename_entries
set = set_entry  # noqa: A001
