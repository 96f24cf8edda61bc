from circletools.check import newly_found as newly_found
from circletools.findings import Explanation as Explanation
from circletools.findings import explain as explain
from circletools.findings import selectable
from circletools.judging import CheckRequest as CheckRequest
from circletools.judging import Judgement as Judgement
from circletools.judging import find_settings as find_settings
from circletools.judging import judge as judge
from circletools.judging import read_settings as read_settings
from circletools.requires.table import measured
from circletools.runtimes.programs import known

codes = selectable
programs = known
releases = measured
