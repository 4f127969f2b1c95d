"""A FastMCP server for the tests that only lets in who has a token of an authorization
server: guarded_server.py PORT ISSUER."""

import sys

from fastmcp import FastMCP
from fastmcp.server.auth import RemoteAuthProvider
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.server.dependencies import get_access_token

port, issuer = sys.argv[1:]
here = f"http://127.0.0.1:{port}"
verifier = JWTVerifier(jwks_uri=f"{issuer}/jwks", issuer=issuer, audience=f"{here}/mcp", required_scopes=["mcp"])
mcp = FastMCP("guarded", auth=RemoteAuthProvider(verifier, [issuer], base_url=here))


@mcp.tool(annotations={"readOnlyHint": True})
def whoami() -> str:
    """Tell who is signed in."""
    token = get_access_token()
    return str(token.claims["sub"]) if token else "nobody"


if __name__ == "__main__":
    mcp.run(transport="http", host="127.0.0.1", port=int(port), show_banner=False)
