// The client that the MCP conformance suite tests, over the public API of the package
// alone: client.mjs URL. The suite names the scenario in MCP_CONFORMANCE_SCENARIO and may
// give credentials and calls in MCP_CONFORMANCE_CONTEXT.

import { MCPError, ReplyError, Runtime } from '../../../bindings/node/index.js'

const SERVER = 'suite'
const ARGUMENTS = { add_numbers: { a: 5, b: 3 } }

// How the suite calls what a person would write into the server's oauth block.
const OAUTH = {
  client_id: 'clientId',
  client_secret: 'clientSecret',
  private_key_pem: 'privateKeyPem',
  signing_algorithm: 'signingAlgorithm',
  issuer: 'issuer',
  idp_client_id: 'idpClientId',
  idp_id_token: 'idToken',
  idp_issuer: 'idpIssuer',
  idp_token_endpoint: 'idpTokenEndpoint',
  valid_jwt: 'assertion',
}
const GRANTS = {
  'client-credentials': 'client_credentials',
  'enterprise-managed': 'enterprise_managed',
  'cross-app-access': 'enterprise_managed',
  'wif-jwt-bearer': 'jwt_bearer',
}

/** The server's config, as a person would write it with what the suite gives out of band. */
function config(url, scenario, context) {
  const oauth = {}
  for (const [key, name] of Object.entries(OAUTH)) if (key in context) oauth[name] = context[key]
  for (const [part, grant] of Object.entries(GRANTS)) if (scenario.includes(part)) oauth.grant = grant
  return Object.keys(oauth).length > 0 ? { type: 'http', url, oauth } : { type: 'http', url }
}

/** Stands for the person at the browser: the suite's server says yes at once, in a redirect. */
async function signIn({ url }) {
  const answer = await fetch(url, { redirect: 'manual' })
  const callbackUrl = answer.headers.get('location')
  return callbackUrl ? { callbackUrl } : { declined: true }
}

async function callAll(rt, context) {
  for (const call of context.toolCalls ?? []) await rt.call(call.name, call.arguments, { server: SERVER })
  if (context.toolCalls) return
  const { tools } = await rt.list()
  for (const tool of tools) {
    let args = ARGUMENTS[tool.tool] ?? {}
    if (tool.tool.includes('echo') && tool.inputSchema.properties?.schema)
      args = { schema: tools.find((other) => other !== tool).inputSchema }
    await rt.call(tool.name, args)
  }
}

/** Lists the skills and, unless the scenario is that nothing is read ahead of need, loads each with all its files. */
async function loadSkills(rt, scenario) {
  const { skills } = (await rt.request(SERVER, 'skills/list')).json
  if (scenario.endsWith('no-prefetch')) return
  for (const skill of skills)
    for (const { uri } of skill.resources) await rt.request(SERVER, 'resources/read', { uri })
}

const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? ''
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT || '{}')
const rt = await Runtime.open({
  servers: { [SERVER]: config(process.argv[2], scenario, context) },
  discovery: { user: 'none', project: false },
  cache: { enabled: false },
  auth: {
    store: 'memory',
    openBrowser: 'never',
    redirectUri: 'http://localhost:3000/callback',
    clientMetadataUrl: 'https://conformance-test.local/client-metadata.json',
  },
  onRequest: {
    authorization: signIn,
    elicitation: () => ({ action: 'accept', content: {} }),
    sampling: () => {
      throw new ReplyError('declined', -1)
    },
    roots: () => ({ roots: [] }),
  },
})
try {
  const report = await rt.connect({ startupTimeoutMs: Infinity })
  for (const error of Object.values(report.errors)) throw error
  if (report.needsAuth.length > 0) await rt.request(null, 'mcprt/auth.login', { server: SERVER })
  if (scenario.includes('sep-2640')) await loadSkills(rt, scenario)
  else await callAll(rt, context)
} catch (error) {
  if (!(error instanceof MCPError) && !error?.code) throw error
  console.error(`${error.code}: ${error.message}`)
  process.exitCode = 1
} finally {
  await rt.close()
}
