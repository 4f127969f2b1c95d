/**
 * The tools of MCP servers for the AI SDK (package `ai`, version 7 or newer, which the program brings along).
 */

import type { Tool, ToolSet } from 'ai'
import type { Runtime } from './index.js'

export interface LoadOptions {
  /** Of one server only. */
  server?: string
  /** Only these, by the names that `list` gives. */
  names?: string[]
  /** Only those with these words in name, title or description. */
  search?: string
  /** For each call; default: the runtime's. */
  timeoutMs?: number
  /** Of loading; calls have the signal of `generateText` and the like. */
  signal?: AbortSignal
}

/** What a tool's result is to the model. */
export type ModelOutput = Awaited<ReturnType<NonNullable<Tool['toModelOutput']>>>

/**
 * The tools that the runtime knows now, for `generateText`, `streamText` and agents. Deferred ones are among them: a
 * call waits for its server. A tool's output is MCP's result; what fails is thrown, and the AI SDK tells the model.
 * Load again after a `tools_changed` event.
 */
export declare function loadTools(runtime: Runtime, options?: LoadOptions): Promise<ToolSet>

/** A result of MCP as the model is shown it: text, or parts where there are pictures, sound or files. */
export declare function toModelOutput(result: unknown): ModelOutput
