from circletools.storage.directories import write_directory as write_directory
from circletools.storage.files import SUFFIXES as SUFFIXES
from circletools.storage.files import check_target as check_target
from circletools.storage.files import make_directory as make_directory
from circletools.storage.files import models_below as models_below
from circletools.storage.files import same_file as same_file
from circletools.storage.files import write as write
from circletools.storage.platform import locked as locked
