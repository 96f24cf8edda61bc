from circletools.check import newly_found as newly_found
from circletools.codes import Explanation as Explanation
from circletools.codes import explain as explain
from circletools.codes import selectable
from circletools.judging import CheckRequest as CheckRequest
from circletools.judging import Judgement as Judgement
from circletools.judging import judge as judge
from circletools.requires.table import measured
from circletools.runtimes.programs import known
from circletools.settings import find_settings as find_settings
from circletools.settings import read_settings as read_settings

codes = selectable
programs = known
releases = measured
