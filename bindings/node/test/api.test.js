/**
 * What others build on: every declaration, kept in api.txt. A change there is a change
 * for them; `make api` writes it again, and the diff of the commit shows it.
 */

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import * as mcprt from '../index.js'
import { publicApi, undocumented } from './declarations.js'

const SNAPSHOT = new URL('api.txt', import.meta.url)

test('the public API is the one that is kept', () => {
  const exported = Object.entries(mcprt).map(([name, value]) => `${typeof value} ${name}\n`)
  const api = `${exported.sort().join('')}\n${publicApi()}`
  if (process.env.MCPRT_UPDATE_API) writeFileSync(SNAPSHOT, api)
  assert.equal(api, readFileSync(SNAPSHOT, 'utf8'), 'if this change is meant, run "make api" and say it in CHANGELOG.md')
})

test('an editor can say what everything is', () => {
  assert.deepEqual(undocumented(), [])
})

test('options that are one of some words are declared with just these', () => {
  const core = readFileSync(new URL('../../../core/options.go', import.meta.url), 'utf8')
  const options = /interface RuntimeOptions \{.*?^\}/ms.exec(publicApi())?.[0] ?? ''
  const words = [...core.matchAll(/r\.word\("(\w+)", [^,]+, (.*)\)$/gm)]
  assert.ok(words.length > 7)
  for (const [, name, list] of words) {
    const declared = new RegExp(`\\b${name}\\?: ([^;]+);`).exec(options)?.[1].split(' | ').map((word) => word.slice(1, -1))
    assert.deepEqual(declared?.sort(), list.split(', ').map((word) => JSON.parse(word)).sort(), name)
  }
})
