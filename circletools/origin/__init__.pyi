from circletools.metadata.stamp import Freshness as Freshness
from circletools.origin.describe import OriginTable as OriginTable
from circletools.origin.describe import Selection as Selection
from circletools.origin.describe import describe as describe
from circletools.origin.embed import embed as embed
from circletools.origin.embed import extract as extract
from circletools.origin.embed import strip as strip
from circletools.origin.embed import tag as tag
from circletools.origin.embed import untag as untag
from circletools.origin.exchange import parse_origins
from circletools.origin.names import NameSource as NameSource
from circletools.origin.names import collect_sources
from circletools.origin.read import Origins as Origins
from circletools.origin.read import check_freshness as check_freshness
from circletools.origin.read import read_origins

collect = collect_sources
parse = parse_origins
read = read_origins
