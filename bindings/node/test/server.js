/**
 * A small MCP server on stdin and stdout, written to the byte: a library for
 * servers would encode anew what tests want to see unchanged.
 *
 * MCP_TEST_RECORD   this file gets a line for each cancelled request
 * MCP_TEST_DELAY    milliseconds before the first answer
 * MCP_TEST_EXIT     end at once with a reason on stderr
 * MCP_TEST_SILENT   answer nothing
 */

import { appendFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const { MCP_TEST_RECORD: record, MCP_TEST_DELAY: delay = '0', MCP_TEST_EXIT: exits, MCP_TEST_SILENT: silent } = process.env

/** What the raw tool answers. */
export const RAW_RESULT =
  '{"content":[{"type":"text","text":"\\u00e9"},{"type":"hologram","depth":1.50}],"big":9007199254740993,"isError":false,"_meta":{"x/y":[1E2, -0]}}'
/** Its schema has a number that JavaScript rounds, and a keyword nobody knows. */
export const RAW_SCHEMA = '{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}},"x-unknown":[1.0]}'

const TOOLS = `[
  {"name":"raw","description":"a result that must not change","inputSchema":${RAW_SCHEMA}},
  ${['ask', 'big', 'die', 'env', 'hang', 'meta', 'release', 'steps'].map((name) => `{"name":"${name}","inputSchema":{"type":"object"}}`).join(',')}
]`.replaceAll('\n', '')

/** @param {string} json without line ends */
function send(json) {
  process.stdout.write(`${json}\n`)
}

/** Answers the call of steps, once somebody asks for its release. */
let release = () => {}
/** @type {Map<string, (answer: any) => void>} */
const questions = new Map()

/** @param {any} params @param {(result: string) => void} answer */
function call({ name, arguments: args = {}, _meta }, answer) {
  if (name === 'raw') answer(RAW_RESULT)
  else if (name === 'big') answer(`{"content":[{"type":"text","text":"${'x'.repeat(args.bytes)}"}]}`)
  else if (name === 'meta') answer(JSON.stringify({ content: [{ type: 'text', text: JSON.stringify(_meta) }] }))
  else if (name === 'env') answer(JSON.stringify({ content: [{ type: 'text', text: process.env[args.name] ?? 'unset' }] }))
  else if (name === 'die') {
    process.stderr.write('the server dies on purpose\n')
    process.exit(5)
  } else if (name === 'steps') {
    for (let progress = 1; progress <= 3; progress++) {
      send(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: _meta?.progressToken, progress, total: 3 } }))
    }
    release = () => answer('{"content":[]}')
  } else if (name === 'release') {
    release()
    answer('{"content":[]}')
  } else if (name === 'ask') {
    questions.set('q1', (reply) => answer(`{"content":[],"answer":${JSON.stringify(reply)}}`))
    const params = { message: 'Your name?', requestedSchema: { type: 'object', properties: { name: { type: 'string' } } } }
    send(JSON.stringify({ jsonrpc: '2.0', id: 'q1', method: 'elicitation/create', params }))
  } // hang: no answer
}

function serve() {
  createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params, result, error } = JSON.parse(line)
    const answer = (/** @type {string} */ json) => send(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${json}}`)
    if (method === 'initialize') {
      answer(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"written","version":"1"}}`)
    } else if (method === 'tools/list') answer(`{"tools":${TOOLS}}`)
    else if (method === 'tools/call') call(params, answer)
    else if (method === 'notifications/cancelled' && record) appendFileSync(record, 'cancelled\n')
    else if (method === undefined) questions.get(id)?.(result ?? error)
    else if (id !== undefined) send(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"error":{"code":-32601,"message":"no ${method}"}}`)
  })
}

if (fileURLToPath(import.meta.url) === process.argv[1]) {
  if (exits) {
    // Not a text from the environment: the library takes such values for secrets.
    process.stderr.write('this server needs a config\n')
    process.exit(3)
  }
  if (silent) process.stdin.resume()
  else setTimeout(serve, Number(delay))
}
