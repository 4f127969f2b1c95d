/**
 * The tools of MCP servers for the AI SDK, which the program brings along: `npm install ai`.
 */

import { dynamicTool, jsonSchema } from 'ai'

/** Plain JSON Schema without what any provider refuses: the AI SDK's own packages make each provider's form of it. */
const format = 'anthropic'

/**
 * @param {import('./index.js').Runtime} runtime
 * @param {import('./ai.js').LoadOptions} [options]
 * @returns {Promise<import('ai').ToolSet>}
 */
export async function loadTools(runtime, { timeoutMs, signal, ...choice } = {}) {
  const { tools } = await runtime.list({ ...choice, signal, format })
  return Object.fromEntries(tools.map((definition) => [definition.name, toTool(runtime, definition, timeoutMs)]))
}

/**
 * @param {import('./index.js').Runtime} runtime
 * @param {any} definition
 * @param {number | undefined} timeoutMs
 */
function toTool(runtime, { name, description, input_schema: schema }, timeoutMs) {
  return dynamicTool({
    description,
    inputSchema: jsonSchema(schema),
    async execute(input, { abortSignal, toolCallId }) {
      const args = /** @type {Record<string, unknown>} */ (input)
      const result = await runtime.call(name, args, { format, callId: toolCallId, signal: abortSignal, timeoutMs })
      // The AI SDK tells the model what was thrown, as the failure of the tool.
      if (result.isError) throw new Error(failure(result))
      return result.json
    },
    toModelOutput: ({ output }) => toModelOutput(output),
  })
}

/**
 * The text of a failure, that of resources and links included; the format of Anthropic has a failure as text alone, and never an empty one.
 * @param {import('./index.js').CallResult} result
 */
function failure({ message }) {
  const { content } = /** @type {{ content: { text: string }[] }} */ (message)
  return content.map(({ text }) => text).join('\n')
}

/**
 * @param {any} result MCP's
 * @returns {import('./ai.js').ModelOutput}
 */
export function toModelOutput(result) {
  const content = Array.isArray(result?.content) ? result.content : []
  const value = content.map(toPart)
  if (!content.some((/** @type {any} */ item) => item?.type === 'text') && result?.structuredContent != null) {
    value.push({ type: 'text', text: JSON.stringify(result.structuredContent) })
  }
  if (value.every((/** @type {any} */ part) => part.type === 'text')) {
    return { type: 'text', value: value.map((/** @type {any} */ part) => part.text).join('\n') }
  }
  return { type: 'content', value }
}

/** @param {any} item a content block of MCP's */
function toPart(item) {
  switch (item?.type) {
    case 'text':
      return { type: 'text', text: String(item.text ?? '') }
    case 'image':
    case 'audio':
      return file(item.data, item.mimeType)
    case 'resource':
      if (item.resource?.blob === undefined) return { type: 'text', text: `[${item.resource?.uri}]\n${item.resource?.text ?? ''}` }
      return file(item.resource.blob, item.resource.mimeType)
    case 'resource_link':
      return { type: 'text', text: `[resource ${[item.uri, item.name, item.mimeType, item.description].filter(Boolean).join(', ')}]` }
  }
  return { type: 'text', text: JSON.stringify(item) ?? '' }
}

/**
 * What is no base64 would be an exception inside the AI SDK, and end the whole run.
 * @param {unknown} data @param {unknown} mimeType
 */
function file(data, mimeType) {
  const mediaType = String(mimeType ?? 'application/octet-stream')
  const base64 = standardBase64(String(data ?? ''))
  if (base64 === undefined) return { type: 'text', text: `[${mediaType}, no valid base64: cannot be shown here]` }
  return { type: 'file', data: { type: 'data', data: base64 }, mediaType }
}

/**
 * Servers send base64 also in lines, in the URL's alphabet, without padding, or as a whole data: URL.
 * @param {string} sent
 */
function standardBase64(sent) {
  const body = sent.replace(/^data:[^,]*;base64,/, '').replace(/[ \t\r\n]/g, '').replace(/-/g, '+').replace(/_/g, '/').replace(/=+$/, '')
  return body !== '' && body.length % 4 !== 1 && /^[A-Za-z0-9+/]*$/.test(body) ? body.padEnd(Math.ceil(body.length / 4) * 4, '=') : undefined
}
