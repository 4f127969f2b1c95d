/** The tools of the AI SDK with a scripted model: nothing is sent. */

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { generateText, isStepCount } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import { Runtime } from 'mcprt'
import { loadTools } from 'mcprt/ai'

const SERVER = fileURLToPath(new URL('./server.py', import.meta.url))
/** @type {Runtime} */
let runtime
before(async () => {
  runtime = await Runtime.open({
    servers: { s: { command: process.env.PYTHON ?? 'python3', args: [SERVER] } },
    discovery: { user: 'none', project: false },
    cache: { enabled: false },
  })
  assert.deepEqual((await runtime.connect()).connected, ['s'])
})
after(() => runtime.close({ graceMs: 500 }))

const usage = { inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 1, text: 1, reasoning: 0 } }

/**
 * A model that calls each tool once, in one turn, and then says "done".
 * @param {[string, object][]} calls
 */
function model(...calls) {
  let turn = 0
  return new MockLanguageModelV4({
    doGenerate: async () =>
      turn++ === 0
        ? {
            content: calls.map(([toolName, input], i) => ({ type: /** @type {const} */ ('tool-call'), toolCallId: `c${i}`, toolName, input: JSON.stringify(input) })),
            finishReason: { unified: 'tool-calls', raw: undefined },
            usage,
            warnings: [],
          }
        : { content: [{ type: 'text', text: 'done' }], finishReason: { unified: 'stop', raw: undefined }, usage, warnings: [] },
  })
}

/** What the model was shown of each call in its last turn. @param {MockLanguageModelV4} asked */
function shown(asked) {
  const { prompt } = asked.doGenerateCalls[asked.doGenerateCalls.length - 1]
  return prompt.flatMap((message) => (message.role === 'tool' ? message.content : [])).map((part) => /** @type {any} */ (part).output)
}

test('an agent loop with every kind of result', async () => {
  const tools = await loadTools(runtime)
  const { prompt, ...scripted } = { prompt: 'x', model: model(['mcp_s_echo', { text: 'hi' }], ['mcp_s_odd', { input: { _top_81bf98e4: 1 } }], ['mcp_s_picture', {}], ['mcp_s_numbers', {}], ['mcp_s_fail', {}], ['mcp_s_paper', {}]) }
  const { text, steps } = await generateText({ ...scripted, prompt, tools, stopWhen: isStepCount(3) })
  assert.equal(text, 'done')
  const [echo, odd, picture, numbers, fail, paper] = shown(scripted.model)
  assert.deepEqual(echo, { type: 'text', value: '{"text": "hi"}' })
  assert.deepEqual(odd, { type: 'text', value: '{"$top": 1}' })
  assert.equal(picture.type, 'content')
  assert.deepEqual(picture.value[0], { type: 'text', text: 'a dot' })
  assert.equal(picture.value[1].mediaType, 'image/png')
  assert.deepEqual(numbers, { type: 'text', value: '{"n":[1,2]}' })
  assert.equal(fail.type, 'error-text')
  assert.match(fail.value, /out of paper/)
  assert.equal(paper.value[0].mediaType, 'application/pdf')
  const results = steps[0].toolResults
  assert.equal(/** @type {any} */ (results[0].output).content[0].text, '{"text": "hi"}')
  const offered = scripted.model.doGenerateCalls[0].tools ?? []
  assert.equal(offered.length, 12)
  for (const tool of offered) {
    assert.equal(tool.type, 'function')
    assert.equal(/** @type {any} */ (tool).inputSchema.type, 'object')
    assert.ok(!JSON.stringify(tool).includes('$ref'), tool.name)
  }
})

test('a call of the model that fails before it reaches a server', async () => {
  const tools = await loadTools(runtime, { names: ['mcp_s_hang'], timeoutMs: 50 })
  assert.deepEqual(Object.keys(tools), ['mcp_s_hang'])
  const asked = model(['mcp_s_hang', {}])
  await generateText({ model: asked, tools, prompt: 'x', stopWhen: isStepCount(3) })
  const [late] = shown(asked)
  assert.equal(late.type, 'error-text')
  assert.match(late.value, /50 ms/)
})

test('what servers send in another form than they should', async () => {
  const tools = await loadTools(runtime)
  const asked = model(['mcp_s_sloppy', {}], ['mcp_s_fail_in_file', {}], ['mcp_s_fail_silently', {}])
  await generateText({ model: asked, tools, prompt: 'x', stopWhen: isStepCount(3) })
  const [sloppy, inFile, silent] = shown(asked)
  const { content } = (await runtime.call('mcp_s_picture')).json
  assert.equal(sloppy.value[0].data.data, content[1].data)
  assert.deepEqual(sloppy.value[1], { type: 'text', text: '[image/png, no valid base64: cannot be shown here]' })
  assert.match(inFile.value, /\[file:\/\/\/log\]\nout of ink\n\[image\/png, 70 bytes: cannot be shown here\]$/)
  assert.match(silent.value, /the tool failed and did not say why$/)
})

test('an abort ends the call at the server', async () => {
  const tools = await loadTools(runtime)
  const count = async () => Number((await runtime.call('mcp_s_cancelled')).text)
  const before = await count()
  const controller = new AbortController()
  const asked = model(['mcp_s_hang', {}])
  const run = generateText({ model: asked, tools, prompt: 'x', stopWhen: isStepCount(3), abortSignal: controller.signal })
  for (let calls = 0; calls === 0; await new Promise((done) => setTimeout(done, 5))) calls = (await runtime.stats()).servers[0].inFlight
  controller.abort(new Error('enough'))
  await run.catch((error) => assert.match(String(error), /enough|abort/i))
  for (const end = Date.now() + 5000; (await count()) === before; ) assert.ok(Date.now() < end, 'the server was not told')
})

test('the shapes of providers are plain objects, and their messages answer the call', async () => {
  const { tools, names } = await runtime.list({ format: 'openai', names: ['mcp_s_echo'] })
  assert.equal(tools[0].function.name, 'mcp_s_echo')
  assert.deepEqual(names, {})
  assert.equal((await runtime.tools({ format: 'gemini', names: ['mcp_s_echo'] }))[0].parameters.type, 'OBJECT')
  const result = await runtime.call('mcp_s_picture', '{}', { format: 'openai', callId: 'c1' })
  assert.equal(result.message.tool_call_id, 'c1')
  assert.equal(result.followUp.content[0].type, 'image_url')
  assert.equal((await runtime.call('mcp_s_picture')).message, undefined)
  await assert.rejects(runtime.call('mcp_s_echo', '{', { format: 'openai', callId: 'c2' }), (/** @type {any} */ error) => {
    assert.match(error.message, /not valid JSON/)
    assert.equal(error.result.message.tool_call_id, 'c2')
    return true
  })
})
