// Signs in to a FastMCP server at a real authorization server through the Node package.
// Both run: see with-remote.sh.

import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { NeedsAuthError, Runtime } from '../bindings/node/index.js'

const store = mkdtempSync(join(tmpdir(), 'mcprt-signin-'))
after(() => rmSync(store, { recursive: true, force: true }))

const options = {
  servers: { guarded: { url: process.env.REMOTE_GUARDED } },
  env: { HOME: '/nonexistent' },
  discovery: { project: false, user: 'none' },
  cache: { enabled: false },
  auth: { store: 'file', dir: store },
  startupTimeoutMs: 0,
}

/** A browser with cookies that agrees to everything; gives where it would go at last. */
async function browse(url, end) {
  const cookies = new Map()
  for (let hop = 0; hop < 20; hop += 1) {
    if (url.startsWith(end)) return url
    const headers = { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') }
    const reply = await fetch(url, { redirect: 'manual', headers })
    for (const cookie of reply.headers.getSetCookie()) {
      const [name, value] = cookie.split(';')[0].split('=')
      cookies.set(name, value)
    }
    url = new URL(reply.headers.get('location'), url).href
  }
  throw new Error('too many redirects')
}

test('login asks the handler, the sign-in is kept, logout takes it back', async () => {
  let asked
  const rt = await Runtime.open({
    ...options,
    onRequest: {
      authorization: async (params, context) => {
        asked = { ...params, server: context.server }
        return { callbackUrl: await browse(params.url, params.redirectUri) }
      },
    },
  })
  try {
    assert.deepEqual((await rt.connect()).needsAuth, ['guarded'])
    const done = await rt.login('guarded')
    assert.equal(done.signedIn, true)
    assert.equal(done.issuer, process.env.OAUTH_ISSUER)
    assert.deepEqual(asked.scopes, done.scopes)
    assert.equal(asked.server, 'guarded')
    assert.equal((await rt.call('whoami', {}, { server: 'guarded' })).text, 'somebody')
  } finally {
    await rt.close()
  }
  for (const file of readdirSync(store)) assert.equal(statSync(join(store, file)).mode & 0o777, 0o600)

  const later = await Runtime.open(options)
  try {
    assert.deepEqual((await later.connect()).connected, ['guarded'])
    assert.deepEqual(await later.logout('guarded'), { server: 'guarded', signedOut: true, revoked: true })
    await later.connect()
    await assert.rejects(later.call('whoami', {}, { server: 'guarded' }), NeedsAuthError)
  } finally {
    await later.close()
  }
})

test('a handler that throws declines', async () => {
  const rt = await Runtime.open({
    ...options,
    auth: { store: 'memory' },
    onRequest: {
      authorization: () => {
        throw new Error('no browser here')
      },
    },
  })
  try {
    await rt.connect()
    await assert.rejects(rt.login('guarded'), NeedsAuthError)
    await assert.rejects(rt.login('guarded', { signal: AbortSignal.abort() }))
  } finally {
    await rt.close()
  }
})
