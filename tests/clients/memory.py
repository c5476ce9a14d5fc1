"""The memory tool of the Anthropic SDK, on a folder.

Reads a JSON list of commands on stdin; prints {"is_error", "text"} for each, a line each.
"""

import json
import sys

from anthropic.lib.tools._beta_functions import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

tool = BetaLocalFilesystemMemoryTool(sys.argv[1])
for command in json.load(sys.stdin):
    try:
        answer = {"is_error": False, "text": tool.call(command)}
    except ToolError as error:
        answer = {"is_error": True, "text": str(error)}
    print(json.dumps(answer))
