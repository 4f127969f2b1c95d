"""The official `mcp` package's
ClientSessionGroup, which connects its servers one after another."""
from bench import main
from mcp import StdioServerParameters
from mcp.client.session_group import ClientSessionGroup, StreamableHttpParameters


class Pool:
    def __init__(self, group, sessions):
        self.group, self.sessions = group, sessions

    async def list(self, i):
        return len((await self.sessions[i].list_tools()).tools)

    async def call(self, i, tool, args):
        r = await self.group.call_tool(f"s{i}__{tool}", args)
        return sum(len(c.text) for c in r.content if c.type == "text")


async def open_(specs, ready):
    # Tool names repeat across servers; the hook sees only the server's info.
    group = ClientSessionGroup(component_name_hook=lambda name, info: f"{info.name}__{name}")
    await group.__aenter__()
    sessions = []
    for i, s in enumerate(specs):
        had = len(group.tools)
        p = StreamableHttpParameters(url=s.url) if s.url else StdioServerParameters(command=s.command, args=s.args)
        sessions.append(await group.connect_to_server(p))
        ready(i, len(group.tools) - had)
    return Pool(group, sessions)


main(open=open_)
