"""The client that the MCP conformance suite tests, over the public API of the package alone.

    client.py URL

The suite names the scenario in MCP_CONFORMANCE_SCENARIO and may give credentials and calls in MCP_CONFORMANCE_CONTEXT.
"""

import json
import math
import os
import sys
import urllib.error
import urllib.request
from typing import Any, Dict, Mapping

import mcprt

SERVER = "suite"
ARGUMENTS: Dict[str, Dict[str, Any]] = {"add_numbers": {"a": 5, "b": 3}}


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def sign_in(request: mcprt.Request) -> Mapping[str, Any]:
    """Stands for the person at the browser: the suite's server says yes at once, in a redirect."""
    try:
        urllib.request.build_opener(NoRedirect).open(request.params["url"], timeout=10)
    except urllib.error.HTTPError as answer:
        if answer.headers["Location"]:
            return {"callbackUrl": answer.headers["Location"]}
    return {"declined": True}


# How the suite calls what a person would write into the server's oauth block.
OAUTH = {
    "client_id": "clientId",
    "client_secret": "clientSecret",
    "private_key_pem": "privateKeyPem",
    "signing_algorithm": "signingAlgorithm",
    "issuer": "issuer",
    "idp_client_id": "idpClientId",
    "idp_id_token": "idToken",
    "idp_issuer": "idpIssuer",
    "idp_token_endpoint": "idpTokenEndpoint",
    "valid_jwt": "assertion",
}
GRANTS = {
    "client-credentials": "client_credentials",
    "enterprise-managed": "enterprise_managed",
    "cross-app-access": "enterprise_managed",
    "wif-jwt-bearer": "jwt_bearer",
}


def config(url: str, scenario: str, context: Mapping[str, Any]) -> Dict[str, Any]:
    """The server's config, as a person would write it with what the suite gives out of band."""
    oauth = {name: context[key] for key, name in OAUTH.items() if key in context}
    oauth.update({"grant": grant for part, grant in GRANTS.items() if part in scenario})
    return {"type": "http", "url": url, **({"oauth": oauth} if oauth else {})}


def call_all(rt: mcprt.Runtime, context: Mapping[str, Any]) -> None:
    if context.get("toolCalls"):
        for call in context["toolCalls"]:
            rt.call(call["name"], call["arguments"], server=SERVER)
        return
    tools = {tool.tool: tool for tool in rt.list()}
    for name, tool in tools.items():
        arguments = ARGUMENTS.get(name, {})
        if "echo" in name and "schema" in tool.input_schema.get("properties", {}):
            other = next(other for other in tools.values() if other is not tool)
            arguments = {"schema": other.input_schema}
        rt.call(tool.name, arguments)


def load_skills(rt: mcprt.Runtime) -> None:
    """Lists the skills and, unless the scenario is that nothing is read ahead of need, loads each with all its files."""
    skills = rt.request(SERVER, "skills/list").data["skills"]
    if os.environ["MCP_CONFORMANCE_SCENARIO"].endswith("no-prefetch"):
        return
    for skill in skills:
        for file in skill["resources"]:
            rt.request(SERVER, "resources/read", {"uri": file["uri"]})


def main(url: str) -> None:
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    with mcprt.Runtime(
        servers={SERVER: config(url, scenario, context)},
        discovery={"user": "none", "project": False},
        cache={"enabled": False},
        options={
            "auth": {
                "store": "memory",
                "openBrowser": "never",
                "redirectUri": "http://localhost:3000/callback",
                "clientMetadataUrl": "https://conformance-test.local/client-metadata.json",
            }
        },
        on_request={
            "authorization": sign_in,
            "elicitation": lambda _: {"action": "accept", "content": {}},
            "sampling": lambda _: None,
            "roots": lambda _: {"roots": []},
        },
    ) as rt:
        report = rt.connect(startup_timeout=math.inf)
        for error in report.errors.values():
            raise error
        if report.needs_auth:
            rt.request(None, "mcprt/auth.login", {"server": SERVER})
        if "sep-2640" in scenario:
            load_skills(rt)
        else:
            call_all(rt, context)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except mcprt.MCPError as error:
        sys.exit(f"{error.code}: {error}")
