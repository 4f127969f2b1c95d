/** The declarations as a program meets them; checked by tsc, never run. */

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

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
function same<A, B>(_: Equal<A, B>) {}

export async function program(signal: AbortSignal) {
  await using runtime = await Runtime.open({
    cwd: '.',
    projectTrust: 'always',
    servers: { demo: { command: 'demo', args: ['--fast'], env: { A: 'b' } } },
    discovery: { user: ['cursor'] },
    onRequest: {
      elicitation: async (params, { server, signal }) => {
        same<typeof signal, AbortSignal>(true)
        if (server === 'x') throw new ReplyError('no', -1)
        return { action: 'accept', content: params }
      },
      authorization({ url }) {
        same<typeof url, string>(true)
      },
      input: ({ id }) => ({ value: id }),
    },
  })

  const report = await runtime.connect({ only: ['a'], trust: { a: 'sha256:…' }, signal })
  same<typeof report, ConnectReport>(true)
  same<typeof report.tools, Tool[]>(true)
  same<typeof report.raw, Buffer>(true)
  const { changes } = await runtime.reload({ mode: 'diff' })
  same<typeof changes.kept, string[]>(true)

  const { tools } = await runtime.list()
  same<typeof tools, Tool[]>(true)
  const formatted = await runtime.list({ format: 'openai' })
  same<typeof formatted.names, Record<string, string>>(true)
  same<Awaited<ReturnType<typeof runtime.tools>>, Tool[]>(true)
  const answer = await runtime.call('mcp_demo_echo', '{"text":"hi"}', { format: 'openai', callId: 'c' })
  same<typeof answer, CallResult>(true)
  const { servers } = await runtime.list({ kind: 'servers' })
  same<(typeof servers)[0]['pid'], number | null>(true)

  const result = await runtime.call('mcp_demo_echo', { text: 'hi' }, { signal, timeoutMs: 5, retry: 'never', onProgress: ({ progress }) => progress + 1 })
  same<typeof result, CallResult>(true)
  same<typeof result.text, string>(true)
  await runtime.request('demo', 'resources/read', { uri: 'x:y' })
  await runtime.request(null, 'mcprt/stats')
  const { servers: counted } = await runtime.stats()
  counted[0].latency.p99Ms.toFixed()
  await runtime.disconnect('demo')

  runtime.on('tools_changed', ({ added }) => same<typeof added, string[]>(true))
  runtime.on('server_state', ({ state }) => state === 'ready')
  runtime.once('closed', () => {})
  runtime.on('event', (event) => same<typeof event, RuntimeEvent>(true))
  for await (const event of runtime.events({ signal, limit: 5 })) {
    if (event.type === 'dropped') same<typeof event.count, number>(true)
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
  // @ts-expect-error made by open only
  new Runtime()
  // @ts-expect-error
  await Runtime.open({ startupTimeout: 5 })
  // @ts-expect-error
  await Runtime.open({ onRequest: { nothing() {} } })
  // @ts-expect-error
  await runtime.call('x', {}, { retry: 'sometimes' })
  // @ts-expect-error text is for a format
  await runtime.call('x', '{}')
  // @ts-expect-error
  await runtime.list({ format: 'cohere' })
  // @ts-expect-error
  await runtime.reload({ mode: 'half' })
  // @ts-expect-error
  runtime.closed = true
}
