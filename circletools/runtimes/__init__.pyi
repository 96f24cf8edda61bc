from circletools.runtimes.operators import Operators as Operators
from circletools.runtimes.operators import located as located
from circletools.runtimes.protocol import Placed as Placed
from circletools.runtimes.protocol import Verdict as Verdict
from circletools.runtimes.worker import Worker as Worker
