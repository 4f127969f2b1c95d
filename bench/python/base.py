"""What the interpreter takes with the modules that any client of this kind needs."""
import asyncio
import ctypes
import json

with open("/proc/self/status") as f:
    print(json.dumps({"rss_kb": next(int(l.split()[1]) for l in f if l.startswith("VmHWM:"))}))
