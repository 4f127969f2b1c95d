// An agent loop on mcprt. Usage: agent.mjs SCRIPT.json, in a project with MCP servers.
import { readFileSync } from 'node:fs'
import { MCPError, Runtime } from 'mcprt'

// All that the model is ever shown. The servers' tools come and go; this list does not, and
// so the provider's prompt cache holds.
const TOOLS = [
  {
    name: 'search_tools',
    description: 'Find tools by words of their names and descriptions.',
    input_schema: { type: 'object', properties: { query: { type: 'string' } }, required: ['query'] },
  },
  {
    name: 'call_tool',
    description: 'Call a tool that search_tools found.',
    input_schema: {
      type: 'object',
      properties: { name: { type: 'string' }, arguments: { type: 'object' } },
      required: ['name', 'arguments'],
    },
  },
]

/** In the place of a provider's client: does what the script says next. */
class Model {
  #steps
  constructor(script) {
    this.#steps = script.values()
  }
  async next(messages, tools) {
    return this.#steps.next().value
  }
}

const text = (text) => ({ type: 'text', text })

async function searchTools(rt, { query }) {
  const found = await rt.tools({ search: query })
  console.log(`search: ${query} -> ${found.map((tool) => tool.name).join(', ')}`)
  return [text(JSON.stringify(found.map(({ name, description, inputSchema }) => ({ name, description, input_schema: inputSchema }))))]
}

async function callTool(rt, { name, arguments: args }, signal) {
  console.log(`call: ${name}`)
  try {
    const onProgress = ({ progress, total }) => console.log(`  progress ${progress}/${total}`)
    const result = await rt.call(name, args, { signal, onProgress })
    if (result.isError) console.log(`  failed: ${result.text}`)
    return result.content.map(shown)
  } catch (error) {
    if (signal.aborted) {
      console.log('  cancelled') // the server has been told
      return [text('The user cancelled this call.')]
    }
    if (!(error instanceof MCPError)) throw error
    console.log(`  error: ${error.code}`)
    return error.result?.content ?? [text(error.message)]
  }
}

/** A content block of MCP as one that a model takes. */
function shown(block) {
  if (block.type === 'image') {
    console.log(`  ${block.mimeType}, ${Buffer.from(block.data, 'base64').length} bytes`)
    return { type: 'image', source: { type: 'base64', media_type: block.mimeType, data: block.data } }
  }
  return text(block.type === 'text' ? block.text : JSON.stringify(block))
}

async function elicitation({ message }) {
  console.log(`  asked: ${message.split('\n')[0]}`)
  return { action: 'accept', content: { name: 'Ada' } } // a real host asks its user
}

const model = new Model(JSON.parse(readFileSync(process.argv[2], 'utf8')))
const messages = [{ role: 'user', content: 'Show me what you can do.' }]
const rt = await Runtime.open({ projectTrust: 'always', onRequest: { elicitation } })
try {
  // The first Ctrl-C cancels what runs, the next one ends the agent.
  let running = new AbortController()
  process.on('SIGINT', () => {
    if (running.signal.aborted) process.exit(130)
    running.abort()
  })
  const { errors } = await rt.connect()
  for (const [server, error] of Object.entries(errors)) console.error(`${server}: ${error.message}`)
  for (;;) {
    const turn = await model.next(messages, TOOLS)
    if (turn.say) {
      console.log(`say: ${turn.say}`)
      break
    }
    running = new AbortController()
    const run = { search_tools: searchTools, call_tool: callTool }[turn.tool]
    messages.push({ role: 'assistant', content: [turn] })
    messages.push({ role: 'user', content: await run(rt, turn.arguments, running.signal) })
  }
} finally {
  await rt.close()
}
