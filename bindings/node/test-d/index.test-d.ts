/** The declarations as a program meets them; checked by tsd, never run. */

import { expectAssignable, expectError, expectType } from 'tsd'
import {
  type CallResult,
  ClosedError,
  type ConnectReport,
  type ErrorCode,
  LibraryError,
  MCPError,
  ReplyError,
  Runtime,
  type RuntimeEvent,
  type Tool,
  errorClasses,
} from '../index.js'

export async function program(signal: AbortSignal) {
  await using runtime = await Runtime.open({
    cwd: '.',
    projectTrust: 'always',
    servers: { demo: { command: 'demo', args: ['--fast'], env: { A: 'b' } } },
    discovery: { user: ['cursor'] },
    onRequest: {
      elicitation: async (params, { server, signal }) => {
        expectType<AbortSignal>(signal)
        if (server === 'x') throw new ReplyError('no', -1)
        return { action: 'accept', content: params }
      },
      authorization({ url }) {
        expectType<string>(url)
      },
      input: ({ id }) => ({ value: id }),
    },
  })

  const report = await runtime.connect({ only: ['a'], trust: { a: 'sha256:…' }, signal })
  expectType<ConnectReport>(report)
  expectType<Tool[]>(report.tools)
  expectType<Buffer>(report.raw)
  const { changes } = await runtime.reload({ mode: 'diff' })
  expectType<string[]>(changes.kept)

  const { tools } = await runtime.list()
  expectType<Tool[]>(tools)
  const formatted = await runtime.list({ format: 'openai' })
  expectType<Record<string, string>>(formatted.names)
  expectType<any[]>(await runtime.tools({ format: 'gemini' }))
  expectType<Tool[]>(await runtime.tools())
  expectType<CallResult>(await runtime.call('mcp_demo_echo', '{"text":"hi"}', { format: 'openai', callId: 'c' }))
  const { servers } = await runtime.list({ kind: 'servers' })
  expectType<number | null>((servers)[0]['pid'])

  const result = await runtime.call('mcp_demo_echo', { text: 'hi' }, { signal, timeoutMs: 5, retry: 'never', onProgress: ({ progress }) => progress + 1 })
  expectType<CallResult>(result)
  expectType<string>(result.text)
  await runtime.request('demo', 'resources/read', { uri: 'x:y' })
  await runtime.request(null, 'mcprt/stats')
  const { servers: counted } = await runtime.stats()
  counted[0].latency.p99Ms.toFixed()
  await runtime.disconnect('demo')

  runtime.on('tools_changed', ({ added }) => expectType<string[]>(added))
  runtime.on('server_state', ({ state }) => state === 'ready')
  runtime.once('closed', () => {})
  runtime.on('event', (event) => expectType<RuntimeEvent>(event))
  for await (const event of runtime.events({ signal, limit: 5 })) {
    if (event.type === 'dropped') expectType<number>(event.count)
  }
  await runtime.close({ graceMs: 0 })
}

export function explain(error: unknown): string {
  if (error instanceof ClosedError) return error.code
  if (error instanceof MCPError) return `${error.server} ${error.data?.exitCode} ${error.result?.text}`
  if (error instanceof LibraryError) return error.message
  const code: ErrorCode = 'timeout'
  return new errorClasses[code]({ message: 'late' }).name
}

// What must not compile.
export async function mistakes(runtime: Runtime) {
  // @ts-expect-error made by open only (tsd does not know this error)
  new Runtime()
  expectError(await Runtime.open({ startupTimeout: 5 }))
  expectError(await Runtime.open({ onRequest: { nothing() {} } }))
  expectError(await Runtime.open(null))
  expectError(await runtime.call('x', {}, { retry: 'sometimes' }))
  expectError(await runtime.call('x', {}, { signal: 5 }))
  expectError(await runtime.call('x', '{}'))
  expectError(await runtime.list({ format: 'cohere' }))
  expectError(await runtime.reload({ mode: 'half' }))
  expectError((runtime.closed = true))
}

// Classes of errors are told apart by their code at run time, and are all one kind to a type checker.
expectAssignable<typeof MCPError>(ClosedError)
